// Rooms of an inn, drawn by chance on the first page and kept for the others.
const NAMES = ['Anchor', 'Beacon', 'Cove', 'Dune', 'Estuary', 'Fjord', 'Gull', 'Harbour'];
const pick = (list) => list[Math.floor(Math.random() * list.length)];

function drawRooms() {
  const prices = new Set();
  while (prices.size < 5) prices.add(40 + 5 * Math.floor(Math.random() * 25));
  const names = [...NAMES].sort((a, b) => a.localeCompare(b)).map((name) => [Math.random(), name]).sort((a, b) => a[0] - b[0]);
  return [...prices].map((price, i) => ({ name: names[i][1], price, beds: pick([1, 2, 3]), view: i === 0 ? 'sea' : pick(['sea', 'garden', 'street']) }))
    .sort((a, b) => a.name.localeCompare(b.name));
}

if (!localStorage.rooms) localStorage.rooms = JSON.stringify(drawRooms());
const rooms = JSON.parse(localStorage.rooms);
const cheapest = (list) => list.reduce((best, room) => room.price < best.price ? room : best);
// The reward of a reservation: 1 where it is the one that was wanted, -1 where it is another, 0 where there is none yet.
const judge = (wanted) => {
  const made = JSON.parse(localStorage.reservation || 'null');
  return made === null ? 0 : Object.entries(wanted).every(([key, value]) => made[key] === value) ? 1 : -1;
};
