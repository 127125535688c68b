// A page as an accessibility tree in text. References are numbered from 1 in the order of the document, anew each time, so that they are a
// function of what is on the page, whatever led there.
() => {
  if (window.__branchwiseView) return;
  const known = new Set(Object.keys(window));
  const INPUTS = {
    button: 'button', submit: 'button', reset: 'button', image: 'button', checkbox: 'checkbox', radio: 'radio', range: 'slider',
    number: 'spinbutton', search: 'searchbox',
  };
  const TAGS = {
    BUTTON: 'button', TEXTAREA: 'textbox', OPTION: 'option', H1: 'heading', H2: 'heading', H3: 'heading', H4: 'heading', H5: 'heading',
    H6: 'heading', IMG: 'img', LI: 'listitem', UL: 'list', OL: 'list', TABLE: 'table', TR: 'row', TD: 'cell', TH: 'columnheader',
    NAV: 'navigation', MAIN: 'main', DIALOG: 'dialog', PROGRESS: 'progressbar', METER: 'meter', LABEL: 'label', SUMMARY: 'button',
    CANVAS: 'canvas', VIDEO: 'video', AUDIO: 'audio', OPTGROUP: 'group', FIELDSET: 'group',
  };
  const SHAPES = new Set(['circle', 'rect', 'ellipse', 'polygon', 'polyline', 'path', 'line', 'image', 'text']);
  const IGNORED = new Set(['SCRIPT', 'STYLE', 'NOSCRIPT', 'TEMPLATE', 'HEAD', 'META', 'LINK', 'TITLE', 'BASE', 'BR', 'HR', 'defs', 'desc']);
  const INTERACTIVE = new Set([
    'button', 'link', 'checkbox', 'radio', 'slider', 'spinbutton', 'searchbox', 'textbox', 'combobox', 'listbox', 'option', 'tab',
    'menuitem', 'menuitemcheckbox', 'menuitemradio', 'switch', 'treeitem', 'gridcell', 'canvas',
  ]);
  const FROM_CONTENT = new Set([
    'button', 'link', 'option', 'tab', 'menuitem', 'menuitemcheckbox', 'menuitemradio', 'treeitem', 'gridcell', 'heading', 'cell',
    'columnheader', 'rowheader', 'listitem', 'label', 'checkbox', 'radio', 'switch', 'tooltip', 'clickable', 'text', 'alert', 'status',
  ]);
  const EDITABLE = new Set(['textbox', 'searchbox', 'spinbutton']);

  const squeeze = (text) => text.replace(/\s+/g, ' ').trim();
  const isShape = (el) => el.namespaceURI === 'http://www.w3.org/2000/svg' && SHAPES.has(el.tagName);
  const isField = (el) => ['INPUT', 'TEXTAREA', 'SELECT'].includes(el.tagName);

  const roleOf = (el) => {
    const said = (el.getAttribute('role') || '').split(' ')[0];
    if (said && said !== 'presentation' && said !== 'none') return said;
    if (el.tagName === 'A') return el.hasAttribute('href') ? 'link' : null;
    if (el.tagName === 'INPUT') return INPUTS[el.type] || 'textbox';
    if (el.tagName === 'SELECT') return el.multiple || el.size > 1 ? 'listbox' : 'combobox';
    if (isShape(el)) return el.tagName;
    if (TAGS[el.tagName]) return TAGS[el.tagName];
    return el.isContentEditable && !(el.parentElement && el.parentElement.isContentEditable) ? 'textbox' : null;
  };

  // What a label says, without what the field in it says.
  const wordsAround = (label, field) => label.contains(field)
    ? [...label.childNodes].map((node) => node === field ? '' : node.nodeType === Node.ELEMENT_NODE ? wordsAround(node, field) : node.data || '').join(' ')
    : label.innerText;
  const nameOf = (el) => {
    const label = el.getAttribute('aria-label');
    if (label) return squeeze(label);
    const by = el.getAttribute('aria-labelledby');
    if (by) {
      const parts = by.split(/\s+/).map((id) => el.getRootNode().getElementById(id)).filter(Boolean);
      if (parts.length) return squeeze(parts.map((part) => part.textContent).join(' '));
    }
    if (el.tagName === 'INPUT' && INPUTS[el.type] === 'button') return el.value || el.alt || (el.type === 'submit' ? 'Submit' : '');
    if (el.labels && el.labels.length) {
      const named = squeeze([...el.labels].map((one) => wordsAround(one, el)).join(' '));
      if (named) return named;
    }
    return squeeze(el.getAttribute('alt') || el.getAttribute('title') || el.getAttribute('placeholder') || '');
  };

  const colourOf = (el, style) => {
    if (isShape(el)) return el.getAttribute('fill') || (style.fill !== 'none' ? style.fill : style.stroke);
    const colour = el.style.backgroundColor || style.backgroundColor;
    return /^(transparent|rgba\(.*, 0\)|)$/.test(colour) ? '' : colour;
  };
  // Nothing but a class, an id or a colour tells an icon from another.
  const hintOf = (el) => squeeze(typeof el.className === 'string' && el.className ? el.className : el.id || '');
  const place = (el, offset) => {
    const box = el.getBoundingClientRect();
    return { x: box.x + offset.x, y: box.y + offset.y, width: box.width, height: box.height };
  };

  const propsOf = (el, role, style, box, bare) => {
    const props = [];
    if (EDITABLE.has(role) || role === 'slider' || role === 'combobox') {
      const value = isField(el) ? (el.tagName === 'SELECT' ? squeeze((el.selectedOptions[0] || {}).text || '') : el.value) : el.innerText;
      if (value !== undefined && (value || el.tagName === 'SELECT')) props.push(`value=${JSON.stringify(el.type === 'password' ? '*'.repeat(value.length) : value)}`);
    }
    const flag = (name, on) => { if (on) props.push(name); };
    const aria = (name) => el.getAttribute(`aria-${name}`);
    flag('checked', el.checked === true || aria('checked') === 'true');
    flag('selected', (el.tagName === 'OPTION' && el.selected) || aria('selected') === 'true');
    flag('pressed', aria('pressed') === 'true');
    if (aria('expanded') !== null) props.push(aria('expanded') === 'true' ? 'expanded' : 'collapsed');
    if (role === 'slider' && !isField(el) && aria('valuenow') !== null) props.push(`value="${aria('valuenow')}"`);
    flag('disabled', el.disabled === true || aria('disabled') === 'true');
    flag('readonly', el.readOnly === true);
    flag('focused', el.ownerDocument.activeElement === el && el !== el.ownerDocument.body);
    const colour = isShape(el) || bare ? colourOf(el, style) : '';
    if (colour) props.push(`color="${colour}"`);
    if (isShape(el) || role === 'canvas' || (bare && (colour || role === 'clickable'))) {
      props.push(`at=${Math.round(box.x + box.width / 2)},${Math.round(box.y + box.height / 2)}`);
      props.push(`size=${Math.round(box.width)}x${Math.round(box.height)}`);
    }
    return props;
  };

  let skip = '';
  let looks = [];

  const childrenOf = (el) => {
    if (el.tagName === 'SLOT' && el.assignedNodes().length) return el.assignedNodes();
    return (el.shadowRoot || el).childNodes;
  };
  const append = (items, more) => {
    for (const item of more) {
      const last = items.length - 1;
      if (typeof item === 'string' && typeof items[last] === 'string') items[last] = `${items[last]}${item}`; else items.push(item);
    }
  };
  const inside = (el, offset, pointer) => {
    const items = [];
    for (const child of childrenOf(el)) {
      if (child.nodeType === Node.TEXT_NODE) { if (child.data) append(items, [child.data]); }
      else if (child.nodeType === Node.ELEMENT_NODE) append(items, walk(child, offset, pointer));
    }
    return items;
  };
  const ofFrame = (el, offset) => {
    const box = place(el, offset);
    try {
      const inner = el.contentDocument;
      return inner && inner.body ? inside(inner.body, { x: box.x + el.clientLeft, y: box.y + el.clientTop }, false) : [];
    } catch (error) { return []; }
  };
  const asNodes = (items, el) => {
    const nodes = [];
    for (const item of items) {
      if (typeof item !== 'string') nodes.push(item);
      else if (squeeze(item)) nodes.push({ el, role: 'text', name: squeeze(item), props: [], children: [] });
    }
    return nodes;
  };

  // Icons in a control, and boxes around its words, are no parts of their own.
  const plainWords = (items) => {
    const dull = (item) => typeof item === 'string' || item.role === 'text' || (item.role === 'clickable' && !item.name && !item.children.length);
    return items.every(dull) && items.some((item) => typeof item === 'string' ? squeeze(item) : item.name)
      ? [items.map((item) => typeof item === 'string' ? item : ` ${item.name} `).join('')] : items;
  };

  // The texts and nodes that stand for an element in the tree of its parent.
  const walk = (el, offset, pointer) => {
    if (IGNORED.has(el.tagName) || (skip && el.matches(skip)) || (el.tagName === 'INPUT' && el.type === 'hidden')) return [];
    const style = getComputedStyle(el);
    const option = el.tagName === 'OPTION' || el.tagName === 'OPTGROUP';
    if (!option && (style.display === 'none' || style.visibility === 'hidden' || style.opacity === '0')) return [];
    if (el.getAttribute('aria-hidden') === 'true' && !el.contains(el.ownerDocument.activeElement)) return [];
    const box = place(el, offset);
    looks.push(`${el.tagName} ${Math.round(box.x)},${Math.round(box.y)},${Math.round(box.width)},${Math.round(box.height)} ${el.getAttribute('class') || ''}`);
    if (el.tagName === 'BR') return [' '];
    const points = style.cursor === 'pointer';
    let role = roleOf(el);
    if (role === null && el.tagName !== 'IFRAME' && (el.onclick || el.draggable || el.tabIndex >= 0 || (points && !pointer))) role = 'clickable';
    let items = el.tagName === 'IFRAME' ? ofFrame(el, offset) : el.tagName === 'TEXTAREA' ? [] : inside(el, offset, points);
    // The words of a label around a field are the field's name already.
    if (el.tagName === 'LABEL' && el.control && el.contains(el.control)) return items.filter((item) => typeof item !== 'string');
    if (FROM_CONTENT.has(role)) items = plainWords(items);
    const block = !style.display.startsWith('inline') && !isShape(el);
    const texts = items.filter((item) => typeof item === 'string').map(squeeze).filter(Boolean);
    const nested = items.some((item) => typeof item !== 'string');
    if (role === null) {
      if (nested || !texts.length) {
        const colour = !nested && box.width >= 1 && box.height >= 1 ? colourOf(el, { backgroundColor: el.style.backgroundColor }) : '';
        if (!colour && !(hintOf(el) && style.backgroundImage !== 'none' && !nested)) return asNodes(items, el);
        role = 'clickable';
      } else if (!block) return items;
      else role = 'text';
    }
    if (role === 'text' && !isShape(el)) return asNodes(items, el);
    let name = nameOf(el);
    if (!name && !nested && (FROM_CONTENT.has(role) || isShape(el))) name = squeeze(items.join(''));
    const field = isField(el) || role === 'textbox';
    const children = el.tagName === 'SELECT' || nested ? asNodes(items, el) : field || name ? [] : asNodes(items, el);
    const bare = !name && !children.length && !field;
    if (bare && !INTERACTIVE.has(role) && role !== 'clickable' && !isShape(el) && role !== 'img' && role !== 'video') return [];
    const props = propsOf(el, role, style, box, bare);
    if (bare && hintOf(el)) props.push(`class="${hintOf(el)}"`);
    return [{ el, role, name, props, children }];
  };

  let targets = [];
  let lines = [];
  let controls = [];
  const write = (node, depth) => {
    targets.push(node.el);
    const ref = targets.length;
    lines.push(`${'  '.repeat(depth)}[${ref}] ${node.role}${node.name ? ` ${JSON.stringify(node.name)}` : ''}${node.props.map((prop) => ` ${prop}`).join('')}`);
    controls.push([ref, node.role, node.props, node.name, node.el.tagName === 'SELECT' ? [...node.el.options].map((option) => squeeze(option.text)) : []]);
    for (const child of node.children) write(child, depth + 1);
  };

  // Values of fields, what is selected and scrolled, and the page's own variables: what decides the future and is not in the tree.
  const hidden = () => {
    const parts = [];
    for (const el of document.querySelectorAll('input, textarea, select')) parts.push(`${el.value}|${el.checked}|${el.selectedIndex}`);
    for (const el of document.querySelectorAll('*')) if (el.scrollTop || el.scrollLeft) parts.push(`${el.tagName} ${el.scrollTop},${el.scrollLeft}`);
    const selection = getSelection();
    parts.push(`${selection}|${selection.anchorOffset}|${selection.focusOffset}`);
    for (const name of Object.keys(window)) if (!known.has(name) && !settings.ignored.includes(name)) parts.push(`${name}=${plain(window[name], 4)}`);
    return parts;
  };
  const plain = (value, depth) => {
    if (value === null || ['number', 'string', 'boolean', 'undefined'].includes(typeof value)) return String(value);
    const kind = typeof value === 'object' ? Object.getPrototypeOf(value) : undefined;
    if (depth === 0 || !(Array.isArray(value) || kind === Object.prototype || kind === null)) return typeof value;
    return `{${Object.keys(value).slice(0, 200).map((key) => `${key}:${plain(value[key], depth - 1)}`).join(',')}}`;
  };

  let settings = { skip: '', ignored: [] };
  Object.defineProperty(window, '__branchwiseView', { value: {
    observe: (given) => {
      settings = given;
      skip = given.skip;
      looks = []; targets = []; lines = []; controls = [];
      if (document.body) for (const node of asNodes(inside(document.body, { x: 0, y: 0 }, false), document.body)) write(node, 0);
      const state = [...lines, ...looks, ...hidden(), window.__branchwise ? __branchwise.pending() : ''].join('\n');
      return { tree: lines.join('\n'), controls, state, url: location.href, title: document.title };
    },
    // Where the mouse has to go for an element; null where there is none any more.
    point: (ref) => {
      const el = targets[ref - 1];
      if (!here(el)) return null;
      if (el.disabled === true) return { disabled: true };
      const shown = el.tagName === 'OPTION' || el.tagName === 'OPTGROUP' ? el.closest('select') || el : el;
      const inView = (box) => box.top >= 0 && box.left >= 0 && box.bottom <= innerHeight && box.right <= innerWidth;
      if (!inView(shown.getBoundingClientRect()) || hides(shown)) shown.scrollIntoView({ block: 'center', inline: 'center', behavior: 'instant' });
      const { box, offset } = where(shown);
      return { x: box.x + box.width / 2 + offset.x, y: box.y + box.height / 2 + offset.y, disabled: false, tag: el.tagName };
    },
    focus: (ref) => { if (!here(targets[ref - 1])) return false; targets[ref - 1].focus(); return true; },
    // Make an element `ready` for typing over what is in it; `filled`: it has been here; `refused`: it cannot be; `gone`: there is none.
    fill: (ref, value) => {
      const el = targets[ref - 1];
      if (!here(el)) return 'gone';
      if (el.disabled || el.readOnly) return 'refused';
      if (el.tagName === 'INPUT' && ['date', 'time', 'month', 'week', 'datetime-local', 'color', 'range'].includes(el.type)) {
        const set = (text) => Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(el, text);
        const before = el.value;
        set(value);
        if (el.value !== value) { set(before); return 'refused'; }
        el.focus();
        tell(el);
        return 'filled';
      }
      const typed = el.tagName === 'TEXTAREA' || (el.tagName === 'INPUT' && !['checkbox', 'radio', 'button', 'submit', 'reset', 'image', 'file'].includes(el.type));
      if (!typed && !el.isContentEditable) return 'refused';
      el.focus();
      if (typed) el.select(); else getSelection().selectAllChildren(el);
      return 'ready';
    },
    choose: (ref, wanted) => {
      const el = targets[ref - 1];
      if (!here(el)) return null;
      if (el.tagName !== 'SELECT' || el.disabled || (wanted.length > 1 && !el.multiple)) return false;
      const chosen = wanted.map((one) => [...el.options].find((option) => squeeze(option.text) === squeeze(one) || option.value === one));
      if (chosen.some((option) => !option || option.disabled)) return false;
      el.focus();
      for (const option of el.options) option.selected = chosen.includes(option);
      tell(el);
      return true;
    },
    // The same with one option that is named itself; in a list of many, the others stay as they are.
    chooseOption: (ref) => {
      const option = targets[ref - 1];
      const list = option.closest('select');
      if (!list || list.disabled) return false;
      list.focus();
      option.selected = true;
      tell(list);
      return true;
    },
    // Where a drag that begins at a point ends: inside the text area in which it began, unless it began at the corner that resizes it.
    within: (x, y, toX, toY) => {
      const el = document.elementFromPoint(x, y);
      // Text that is selected already would be dragged itself, and near an edge scrolled, in real time: a drag selects anew.
      if (el && ['TEXTAREA', 'INPUT'].includes(el.tagName) && el.selectionStart !== null) el.setSelectionRange(0, 0);
      else if (el && !el.closest('[draggable=true]')) getSelection().removeAllRanges();
      const box = el && el.tagName === 'TEXTAREA' ? el.getBoundingClientRect() : null;
      if (!box || (x > box.right - 17 && y > box.bottom - 17)) return [toX, toY];
      return [Math.min(Math.max(toX, box.left + 3), box.right - 3), Math.min(Math.max(toY, box.top + 3), box.bottom - 3)];
    },
    // Scroll whatever lies under a point, or around it, and can be scrolled that way; false: nothing moved.
    scroll: (x, y, dx, dy) => {
      const before = document.elementFromPoint(x, y) || document.body;
      for (let el = before; el; el = el.parentElement) {
        const [top, left] = [el.scrollTop, el.scrollLeft];
        const style = getComputedStyle(el);
        const scrolls = el === document.scrollingElement || /auto|scroll/.test(style.overflow + style.overflowX + style.overflowY) || el.tagName === 'TEXTAREA';
        if (scrolls) el.scrollBy({ left: dx, top: dy, behavior: 'instant' });
        if (el.scrollTop !== top || el.scrollLeft !== left) return true;
      }
      return false;
    },
  } });
  const here = (el) => Boolean(el && el.isConnected);
  const tell = (el) => { for (const name of ['input', 'change']) el.dispatchEvent(new Event(name, { bubbles: true })); };
  // Whether a part of the page that scrolls has it out of sight.
  const hides = (el) => {
    const box = el.getBoundingClientRect();
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    for (let at = el.parentElement; at && at !== el.ownerDocument.body; at = at.parentElement) {
      if (at.scrollHeight <= at.clientHeight && at.scrollWidth <= at.clientWidth) continue;
      const frame = at.getBoundingClientRect();
      if (x < frame.left || x > frame.right || y < frame.top || y > frame.bottom) return true;
    }
    return false;
  };
  const where = (el) => {
    const offset = { x: 0, y: 0 };
    for (let view = el.ownerDocument.defaultView; view && view !== window; view = view.parent) {
      const frame = view.frameElement.getBoundingClientRect();
      offset.x += frame.x + view.frameElement.clientLeft;
      offset.y += frame.y + view.frameElement.clientTop;
    }
    return { box: el.getBoundingClientRect(), offset };
  };
}
