import { parseArgs } from "node:util";

export const PARTS = [
  "ingress",
  "drain",
  "latency",
  "memory",
  "soak",
  "challenge",
  "paid",
  "flood",
  "failover",
  "partitions",
] as const;
export type PartName = (typeof PARTS)[number];

export type BenchOptions = {
  parts: readonly PartName[];
  quick: boolean;
  help: boolean;
  jsonFile: string | undefined;
  profileDir: string | undefined;
  rates: readonly number[];
  against: string | undefined;
};

export const USAGE = `usage: npm run bench -- [ingress] [drain] [latency] [memory] [soak] [challenge] [paid] [flood] [failover] [partitions] [options]

Measures Postern's own processes on this machine, with a private Redis that fsyncs every write.
Without a part, all run (two to four hours).

  ingress         calls accepted per second, without and with delivery ids, against a hand-written gateway
  drain           calls injected per second, of one job and of 100, against a hand-written worker
  latency         from a call's first byte to the runner, at half of the highest rate, against a hand-written gateway and worker
  memory          bytes of Redis for a call that waits, was injected or failed, and for what the runner and results keep
  soak            memory of gateway, producer, runner and both Redis while a million calls run (ten minutes to an hour)
  challenge       unpaid requests answered with 402 per second, against a server that sends the same bytes
  paid            paid requests per second, against @x402/express; cost of the checks that need no network
  flood           honest payers served beside 300 hostile connections of each kind, and memory meanwhile
  failover        calls lost, calls sent again and seconds without a 202 at each failover of Sentinel and of a Cluster
  partitions      calls added and injected per second with 1, 2 and 4 partitions on 1, 2 and 3 masters; connections and idle cost

  --quick         fewer and shorter rounds: shows that the bench works; its figures mean little
  --rates N,N     further rates at which latency is measured, in calls a second
  --against BUILD compare ingress, drain, challenge and paid with another build in place of the baselines.
                  BUILD is a commit, which is cloned and built, or the folder of a built clone
  --json FILE     also write the figures there
  --profile DIR   write a CPU profile of each compared process there (profiling slows them)
  --help

Exit codes: 0 measured, however fast; 1 a call was lost, memory grew in the soak, a flood kept payers out or something failed; 2 wrong command line`;

/** Parses the command line. If it is invalid, throws an error whose message names the fault. */
export function parseOptions(args: readonly string[]): BenchOptions {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      quick: { type: "boolean", default: false },
      help: { type: "boolean", short: "h", default: false },
      json: { type: "string" },
      profile: { type: "string" },
      rates: { type: "string" },
      against: { type: "string" },
    },
  });
  const unknown = positionals.find((name) => !isPart(name));
  if (unknown !== undefined)
    throw new Error(`there is no part "${unknown}"; the parts are ${PARTS.join(", ")}`);
  return {
    parts: positionals.length === 0 ? PARTS : PARTS.filter((part) => positionals.includes(part)),
    quick: values.quick,
    help: values.help,
    jsonFile: values.json,
    profileDir: values.profile,
    rates: values.rates === undefined ? [] : values.rates.split(",").map(toRate),
    against: values.against,
  };
}

function toRate(text: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new Error(`--rates takes whole numbers, not "${text}"`);
  return Number(text);
}

function isPart(name: string): name is PartName {
  return (PARTS as readonly string[]).includes(name);
}
