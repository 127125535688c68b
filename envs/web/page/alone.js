// What a page would open in another window, it opens in its own: a task has one page, and what is to be seen does not depend on which window
// happens to be in front.
() => {
  const own = (el) => el && el.target && !['_self', '_parent', '_top'].includes(el.target) && !window.frames[el.target];
  const found = (event, tags) => event.composedPath().find((el) => el instanceof Element && tags.includes(el.tagName));
  addEventListener('click', (event) => {
    const link = found(event, ['A', 'AREA', 'a']);
    if (own(link)) link.target = '_self';
  }, true);
  addEventListener('submit', (event) => {
    const form = found(event, ['FORM']);
    if (own(form)) form.target = '_self';
    const button = event.submitter;
    if (button && own({ target: button.formTarget })) button.formTarget = '_self';
  }, true);
  window.open = (url) => {
    if (url) location.assign(new URL(url, document.baseURI));
    return null;
  };
}
