import { parseArgs } from "node:util";

export const PARTS = [
  "ingress",
  "ingress-with-id",
  "drain",
  "report",
  "latency",
  "fairness",
  "memory",
  "failed",
  "waiting",
  "large",
  "soak",
  "challenge",
  "paid",
  "flood",
  "nodes",
  "start",
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
  nodes: readonly string[];
};

export const USAGE = `usage: npm run bench -- [ingress] [ingress-with-id] [drain] [report] [latency] [fairness] [memory] [failed] [waiting] [large] [soak] [challenge] [paid] [flood] [nodes] [start] [options]

Measures Postern's own processes on this machine, with a private Redis that fsyncs every write.
Without a part, all run (one to two hours).

  ingress         calls accepted per second, against a hand-written gateway
  ingress-with-id the same with a delivery id each, against the same gateway
  drain           calls injected per second, of one job and of 100, against a hand-written worker
  report          what it costs that processes tell what they count and remember calls, against themselves without it
  latency         from a call's first byte to the runner, at half of the highest rate, against a hand-written gateway and worker
  fairness        how long calls of a quick job wait beside jobs that hang or are busy, and in a single queue
  memory          bytes per call in Redis, memory of the processes, from 1,000 to 300,000 waiting calls
  failed          time and memory of \`postern failed\` with 1,000,000 failed calls
  waiting         10,000 clients that wait for results at one gateway: memory of each, time from a call's end to its answer
  large           time and memory of ten bodies of 25 MiB at a gateway, and of 75 that wait for four producers
  soak            memory of gateway, producer, runner and both Redis while a million calls run (ten minutes to an hour)
  challenge       unpaid requests answered with 402 per second, against a server that sends the same bytes
  paid            paid requests per second, against @x402/express; cost of the checks that ask nobody
  flood           honest payers served beside 300 hostile connections of each kind, and memory meanwhile
  nodes           calls accepted per second, processor time and memory of the gateway on each Node of --node
  start           processor time that commands take to start, above that of a Node that does nothing

  --quick         fewer and shorter rounds: to see that it works, not to judge by
  --rates N,N     calls a second at which latency is measured too
  --against BUILD compare ingress, ingress-with-id, drain, challenge and paid with another build in place of the baselines: that of a
                  commit, which is cloned and built for it, or of a folder with a clone that is built
  --node COMMAND  a Node to compare in nodes, with its arguments if it has some; may come several times
  --json FILE     also write the figures there
  --profile DIR   write a CPU profile of each process that is compared there (it slows all of them)
  --help

Exit codes: 0 measured, however fast; 1 a call was lost, memory grew in the soak, a flood kept payers out or something failed; 2 wrong command line`;

/** Throws what is wrong with the command line. */
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
      node: { type: "string", multiple: true, default: [process.execPath] },
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
    nodes: values.node,
  };
}

function toRate(text: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new Error(`--rates takes whole numbers, not "${text}"`);
  return Number(text);
}

function isPart(name: string): name is PartName {
  return (PARTS as readonly string[]).includes(name);
}
