import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";

/** The commands of Redis that change no data. */
const READS = new Set(
  `EXISTS GET GETRANGE HEXISTS HGET HGETALL HLEN HMGET HSTRLEN LINDEX LLEN LPOS LRANGE MGET PTTL SCARD SISMEMBER SMEMBERS STRLEN
  TIME ZCARD ZCOUNT ZMSCORE ZRANGE ZRANGEBYSCORE ZREVRANGE ZREVRANGEBYSCORE ZREVRANK ZSCORE XREVRANGE HKEYS`.split(
    /\s+/,
  ),
);

const ROOT = join(import.meta.dirname, "../../..");

type Found = { file: string; source: string; proof: string };

/** All scripts that the code defines, with the files of their Lua and the proofs that they declare. */
function scripts(): Found[] {
  const files = ["services", "shared"].flatMap((dir) =>
    readdirSync(join(ROOT, dir), { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".ts"))
      .map((name) => join(dir, name)),
  );
  return files.flatMap((file) => {
    const text = readFileSync(join(ROOT, file), "utf8");
    return [...text.matchAll(/defineScript\(\{(.*?)\breply[:,]/gs)].flatMap(([, body = ""]) => {
      const name = /source: (\w+)/.exec(body)?.[1];
      const lua = new RegExp(`import ${name} from "(.*)"`).exec(text)?.[1];
      const proof = /proof: "(\w+)"/.exec(body)?.[1] ?? "none";
      return name === undefined ? [] : [{ file, source: lua ?? name, proof }];
    });
  });
}

const ALL = scripts();

/** The commands that a script runs, including those of the files that it includes. */
function commandsOf(path: string): string[] {
  const text = readFileSync(path, "utf8");
  const included = [...text.matchAll(/^--@include "(\..*)"$/gm)].flatMap(([, name = ""]) =>
    commandsOf(join(dirname(path), name)),
  );
  const own = [...text.matchAll(/redis\.call(?:,|\()\s*['"](\w+)['"]/g)].map(([, command = ""]) => command);
  return [...own, ...included];
}

test("every script declares whether a failover may lose its writes", () => {
  expect(ALL.length).toBeGreaterThan(90);
  expect(ALL.filter(({ proof }) => !["needed", "reads", "expendable"].includes(proof))).toEqual([]);
});

test.each(ALL.filter(({ proof }) => proof === "reads"))(
  "the script $source of $file only reads",
  (script) => {
    const path = join(ROOT, dirname(script.file), script.source);
    expect(commandsOf(path).filter((command) => !READS.has(command.toUpperCase()))).toEqual([]);
  },
);

/**
 * Scripts whose writes must survive a failover, because they lead to an effect outside of Redis or to an answer to a client.
 */
const EFFECTS = [
  ...["enqueue.lua", "claim.lua", "dispatching.lua", "enqueue-settled.lua", "enqueue-again.lua"],
  ...["work.lua", "void.lua", "review.lua", "proven.lua", "drop.lua", "dispute.lua", "acknowledge.lua"],
  ...["export-refunds.lua", "close-case.lua", "withdraw-case.lua", "note-spent-elsewhere.lua"],
  ...["seal-export.lua"],
  ...[
    "begin-discard.lua",
    "begin-replay.lua",
    "end-discard.lua",
    "replay.lua",
    "replay-delivered.lua",
    "forget.lua",
  ],
  ...[
    "pause-job.lua",
    "resume-job.lua",
    "run-delayed.lua",
    "set-endpoint.lua",
    "enable-endpoint.lua",
    "follow-intents.lua",
    "use-nonce.lua",
    "open-endpoint.lua",
    "look-at-opened.lua",
    "close-endpoint.lua",
  ],
  ...["deliver-result.lua", "record-unsure.lua", "begin-call.lua", "finish-call.lua", "fail-call.lua"],
  ...["store-long.lua", "claim-long.lua", "claim-delivery.lua", "end-delivery.lua", "first-quote.lua"],
];

test.each(EFFECTS)("the writes of %s are proven", (name) => {
  const found = ALL.filter(({ source }) => source.endsWith(`/${name}`));
  expect(found.length).toBeGreaterThan(0);
  expect(found.some(({ proof }) => proof === "needed")).toBe(true);
});
