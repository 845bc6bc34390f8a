// Values that are asked for at a steady pace, most of them never: for curves and limits that come from them.
//   node paced.js VALUES PER_SECOND SECONDS
// Makes VALUES of 4 KiB each in a Map, prints `ready pid=P`, then asks PER_SECOND of them a second for SECONDS or until standard
// input ends, all but one of 60,000 evenly in the first half; what was late is caught up with. Each is checked.
'use strict';

const [count, rate, seconds] = process.argv.slice(2).map(Number);
const hot = count >> 1;
const table = new Map();
for (let number = 0; number < count; number++) {
  table.set(number, new Float64Array(512).fill(number));
}

let state = 88172645463325252n;
const mask = (1n << 64n) - 1n;
function below(limit) {
  state ^= (state << 13n) & mask;
  state ^= state >> 7n;
  state ^= (state << 17n) & mask;
  return Number(((state >> 32n) * BigInt(limit)) >> 32n);
}

console.log(`ready pid=${process.pid}`);
const begin = process.hrtime.bigint();
let done = 0;
function work() {
  const passed = Number(process.hrtime.bigint() - begin) / 1e9;
  for (; done < Math.min(passed, seconds) * rate; done++) {
    const number = done % 60000 ? below(hot) : below(count);
    if (table.get(number)[3] !== number) {
      console.error(`value ${number} is wrong`);
      process.exit(99);
    }
  }
  if (passed >= seconds) {
    console.log(`asked ${done}`);
    process.exit(0);
  }
}
setInterval(work, 20);
process.stdin.on('end', () => process.exit(0));
process.stdin.resume();
