import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { Connection, createPost, type Traffic } from "./connection.ts";
import type { LoadOptions, LoadResult } from "./load-protocol.ts";

/*
 * Program that sends requests as fast as its connections allow. It builds the bytes of all requests before it starts. It
 * builds one request for each path and sends these in turn. If all requests must differ, it builds one for each call. It
 * prints its result as one line of JSON.
 */
const options = JSON.parse(process.argv[2] ?? "") as LoadOptions;
const requests = toRequests(options);
let sent = 0;

const statuses = new Map<number, number>();
let unanswered = 0;

type Phase = { toSend: number; toAnswer: number; latencies: number[]; ended: () => void };
let phase: Phase;

const traffic: Traffic = {
  next() {
    if (phase.toSend === 0) return undefined;
    phase.toSend -= 1;
    return requests[sent++ % requests.length];
  },
  answered(status, _head, ms) {
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
    phase.latencies.push(ms);
    settle();
  },
  lost() {
    unanswered += 1;
    settle();
  },
};

function settle(): void {
  phase.toAnswer -= 1;
  if (phase.toAnswer === 0) phase.ended();
}

function toRequests(options: LoadOptions): Buffer[] {
  const { paths, warmUp, calls } = options;
  const toPost = createPost(options);
  const own = ownHeaders(options);
  if (own === undefined) return paths.map((path) => toPost(path));
  if (own.length < warmUp + calls)
    throw new Error(`${options.headersFile} is too short for ${warmUp + calls} requests`);
  return own.map((line, i) => toPost(paths[i % paths.length] ?? "", [line]));
}

/** Returns one header line for each request, from the file or with a random id. Undefined if requests need not differ. */
function ownHeaders({ headersFile, idHeader, warmUp, calls }: LoadOptions): string[] | undefined {
  if (headersFile !== undefined) return readFileSync(headersFile, "latin1").split("\n");
  if (idHeader === undefined) return undefined;
  return Array.from({ length: warmUp + calls }, () => `${idHeader}: ${randomUUID()}`);
}

async function run(
  connections: readonly Connection[],
  calls: number,
): Promise<{ ms: number; sorted: number[] }> {
  const started = performance.now();
  const latencies: number[] = [];
  await new Promise<void>((ended) => {
    phase = { toSend: calls, toAnswer: calls, latencies, ended };
    for (const connection of connections) connection.send();
  });
  return { ms: performance.now() - started, sorted: latencies.sort((a, b) => a - b) };
}

const connections = Array.from(
  { length: options.connections },
  () => new Connection(options.address, traffic),
);
if (options.warmUp > 0) await run(connections, options.warmUp);
const { ms, sorted } = await run(connections, options.calls);
for (const connection of connections) connection.end();

const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
const accepted = statuses.get(options.status) ?? 0;
statuses.delete(options.status);
const result: LoadResult = {
  perSecond: (options.calls * 1000) / ms,
  p50Ms: at(0.5),
  p99Ms: at(0.99),
  accepted,
  refused: Object.fromEntries(statuses),
  unanswered,
};
console.log(JSON.stringify(result));
