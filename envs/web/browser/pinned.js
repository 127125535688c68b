// Chance and time of a document are pinned: Math.random and crypto follow from a seed, and the clock stands still until it is told to go on.
// Called before any script of the page. Timers, animation frames and Date run on the pinned clock only.
(settings) => {
  if (window.__branchwise) return;
  const RealDate = Date;
  const channel = new MessageChannel();
  const hops = [];
  channel.port1.onmessage = () => hops.shift()();
  // One turn of the event loop, in which promises and messages of the page are settled.
  const realFrame = window.requestAnimationFrame.bind(window);
  const hop = () => new Promise((resolve) => { hops.push(resolve); channel.port2.postMessage(0); });

  let word = 0;
  const random = () => {  // mulberry32
    word = (word + 0x6d2b79f5) | 0;
    let t = Math.imul(word ^ (word >>> 15), 1 | word);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  const fill = (array) => {
    const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
    for (let i = 0; i < bytes.length; i++) bytes[i] = Math.floor(random() * 256);
    return array;
  };

  let elapsed = 0;  // milliseconds since settings.start
  let lastId = 0;
  let mark = null;
  let timers = new Map();
  const add = (call, at, every) => { timers.set(++lastId, { call, at, every, id: lastId }); return lastId; };
  const callable = (work, args) => typeof work === 'function' ? () => work.apply(window, args) : () => (0, eval)(String(work));
  const delayed = (delay) => Math.max(1, Number(delay) || 0);
  const drop = (id) => { timers.delete(Number(id)); };
  const frame = () => (Math.floor(elapsed / 16) + 1) * 16;

  const pin = (seed, at) => { word = seed | 0; elapsed = at; };
  pin(settings.seed, settings.elapsed || 0);
  Math.random = random;
  if (window.crypto) {
    Object.defineProperty(crypto, 'getRandomValues', { value: fill });
    Object.defineProperty(crypto, 'randomUUID', { value: () => {
      const hex = [...fill(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
      return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20)}`;
    } });
  }
  const now = () => settings.start + elapsed;
  window.Date = new Proxy(RealDate, {
    construct: (target, args, made) => Reflect.construct(target, args.length ? args : [now()], made === window.Date ? target : made),
    apply: () => new RealDate(now()).toString(),
    get: (target, name) => name === 'now' ? now : Reflect.get(target, name),
  });
  RealDate.prototype.constructor = window.Date;
  performance.now = () => elapsed;
  window.setTimeout = (work, delay, ...args) => add(callable(work, args), elapsed + delayed(delay), null);
  window.setInterval = (work, delay, ...args) => add(callable(work, args), elapsed + delayed(delay), delayed(delay));
  window.requestAnimationFrame = (work) => add(() => work(elapsed), frame(), null);
  window.requestIdleCallback = (work) => add(() => work({ didTimeout: false, timeRemaining: () => 50 }), frame(), null);
  window.clearTimeout = window.clearInterval = window.cancelAnimationFrame = window.cancelIdleCallback = drop;

  const due = (until) => {
    let first = null;
    for (const timer of timers.values()) {
      if (timer.at <= until && (first === null || timer.at < first.at || (timer.at === first.at && timer.id < first.id))) first = timer;
    }
    return first;
  };
  const fire = (timer) => {
    elapsed = Math.max(elapsed, timer.at);
    if (timer.every === null) timers.delete(timer.id); else timer.at = elapsed + timer.every;
    try { timer.call(); } catch (error) { console.error(error); }
  };
  // Transitions and animations of style sheets run on the browser's own clock: they are brought to their end.
  const finish = () => {
    for (const animation of document.getAnimations ? document.getAnimations() : []) {
      try { animation.finish(); } catch (error) { animation.pause(); animation.currentTime = 0; }
    }
  };
  const frames = () => [...Array(window.frames.length).keys()].map((i) => {
    try { return window.frames[i].__branchwise; } catch (error) { return undefined; }
  }).filter(Boolean);

  Object.defineProperty(window, '__branchwise', { value: {
    // Let `ms` milliseconds pass, one timer at a time.
    advance: async (ms) => {
      const until = elapsed + ms;
      await hop();
      for (let timer = due(until), fired = 0; timer && fired < settings.most; timer = due(until), fired++) {
        fire(timer);
        await hop();
      }
      elapsed = until;
      finish();
      for (const inner of frames()) await inner.advance(ms);
      await hop();
    },
    elapsed: () => elapsed,
    // Wait until the browser itself has drawn `count` frames.
    frames: async (count) => { for (let i = 0; i < count; i++) await new Promise(realFrame); },
    // What a page has set up when it was loaded is kept; `rewind` returns to that moment.
    mark: () => { mark = { elapsed, timers: new Map([...timers].map(([id, timer]) => [id, { ...timer }])), lastId }; },
    rewind: (seed) => {
      timers = new Map([...mark.timers].map(([id, timer]) => [id, { ...timer }]));
      lastId = mark.lastId;
      Math.random = random;
      pin(seed, mark.elapsed);
    },
    pin,
    random,
    // What is still to happen, as text, for signatures.
    pending: () => [...timers.values()].map((timer) => `${timer.at - elapsed}:${timer.every}`).sort().join(' '),
    word: () => word,
  } });
}
