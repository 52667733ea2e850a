// Proves that the plan player in a page says what it says here: its module answers 1,000 random
// requests with the same bytes, and some answers have the facts that the program `plan` prints.
//   node player_alike.js PLAYER.js PLAN PLAYER_REQUESTS GOOD_PLAN...
const assert = require("assert");
const { spawnSync } = require("child_process");
const fs = require("fs");
const os = require("os");
const path = require("path");

const [script, plan, requests, ...plans] = process.argv.slice(2);
const count = 1000, every = 15;  // so many requests; which of them the program answers, too
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "player-"));

function run(program, words) {
  const done = spawnSync(program, words, { encoding: "utf8", maxBuffer: 1 << 30 });
  if (done.error) throw done.error;
  return done.stdout;
}

/// What `plan verify` or `plan simulate` prints of a plan's text.
function printed(command, request) {
  const file = path.join(folder, "a.plan");
  fs.writeFileSync(file, request.plan);
  const flags = [];
  for (const [key, value] of Object.entries(request.costs || {}))
    flags.push("--" + key.replaceAll("_", "-"), [].concat(value).join(","));
  const output = run(plan, [command, file, "--json", ...flags]);
  return output ? JSON.parse(output) : null;  // null: it can't be read as a plan
}

/// A broken rule as `plan verify` prints it: where its text has the cell is for pages.
function fault({ place, ...error }) {
  return { verified: false, ...error, ...(error.rule === "hang" ? { hang_free: false } : {}) };
}

async function main() {
  const module = await require(path.resolve(script))();
  const lines = run(requests, [String(count), ...plans]).trimEnd().split("\n");
  assert.strictEqual(lines.length, 2 * count);
  let good = 0, broken = 0, refused = 0, compared = 0;
  for (let i = 0; i < lines.length; i += 2) {
    const [asked, expected] = [lines[i], lines[i + 1]], found = module.answer(asked);
    if (found !== expected) {
      let at = 0;
      while (found[at] === expected[at]) ++at;
      const around = (text) => text.slice(Math.max(0, at - 60), at + 60);
      throw Error(`answers differ to ${asked}:\n in the module: ...${around(found)}
 in C++:        ...${around(expected)}`);
    }
    const answer = JSON.parse(found), request = JSON.parse(asked);
    const unread = answer.error && ["request", "schedule", "text"].includes(answer.error.rule);
    if (!answer.error) ++good;
    else if (unread) ++refused;
    else ++broken;
    if (!request.plan || "slow_rank" in request || unread || (i / 2) % every) continue;
    const command = ++compared % 2 ? "verify" : "simulate";
    assert.deepStrictEqual(answer.error ? fault(answer.error) : answer.facts,
                           printed(command, request), `plan ${command} and ${asked}`);
  }
  console.log(`${count} answers are alike: ${good} of good plans, ${broken} of broken ones, ` +
              `${refused} of what is no plan; ${compared} have what the program prints`);
  assert(Math.min(good, broken, refused) > 50 && compared > 15, "too few of a kind");
}

main().catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
}).finally(() => fs.rmSync(folder, { recursive: true }));
