import { Connection, createPost, type Traffic } from "./connection.ts";
import { SENT_HEADER, type SteadyOptions, type SteadyResult } from "./steady-protocol.ts";

/*
 * Program that sends requests at a constant rate. It sends each request when it is due, over a connection that waits for no
 * answer, so slow answers do not lower the rate. Each request has a header with its send time. The program prints its
 * result as one line of JSON.
 */
const options = JSON.parse(process.argv[2] ?? "") as SteadyOptions;
const { address, path, perSecond, calls } = options;
const toPost = createPost(options);

const statuses: Record<string, number> = {};
let unanswered = 0;
let late = 0;
let due = 0;
let sent = 0;
let ended = 0;

const traffic: Traffic = {
  next() {
    if (sent === due) return undefined;
    sent += 1;
    return toPost(path, [`${SENT_HEADER}: ${process.hrtime.bigint()}`]);
  },
  answered(status) {
    statuses[status] = (statuses[status] ?? 0) + 1;
    ended += 1;
  },
  lost() {
    unanswered += 1;
    ended += 1;
  },
};

const connections = Array.from({ length: options.connections }, () => new Connection(address, traffic));
const started = performance.now();
const timer = setInterval(() => {
  due = Math.min(calls, Math.floor(((performance.now() - started) * perSecond) / 1000));
  for (const connection of connections) {
    if (sent === due) break;
    connection.send();
  }
  late += due - sent;
  if (ended < calls) return;
  clearInterval(timer);
  for (const connection of connections) connection.end();
  const result: SteadyResult = { statuses, unanswered, late };
  console.log(JSON.stringify(result));
}, 1);
