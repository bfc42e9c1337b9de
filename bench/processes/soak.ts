import { createHmac } from "node:crypto";
import { bodyOf, deliveries, isLarge, jobOf } from "../support/soak-plan.ts";
import { hookPath, SECRET } from "../support/world.ts";
import { Connection, type Traffic } from "./connection.ts";
import type { SoakOptions, SoakRuns, SoakSent } from "./soak-protocol.ts";

/*
 * Program that sends the deliveries of a soak in the order of the plan (soak-plan.ts). Each is signed and has a delivery
 * id. The program pauses while too many calls have not succeeded yet, so that the queue stays short even on a slow machine.
 * It prints its result as one line of JSON.
 */
const options = JSON.parse(process.argv[2] ?? "") as SoakOptions;
const { address, countUrl, calls, perSecond, openMax } = options;

const EVERY_MS = 50;
/** The soak fails if no call succeeds for this time. It is longer than any pause of the producer between two attempts. */
const PATIENCE_MS = 60_000;

const plan = deliveries(calls);
let upcoming = plan.next();
/** Number of different calls sent so far. `open` is the number of deliveries without an answer, including repeated ones. */
let begun = 0;
let open = 0;
let succeeded = 0;
let progressAt = performance.now();
/**
 * Number of new calls that may be sent now without exceeding `perSecond`. It grows with time. If calls are not sent, it
 * accumulates, but at most to the number for one second.
 */
let allowance = 0;
let allowedAt = performance.now();

const statuses = new Map<number, number>();
const result = { large: 0, replayed: 0, repeats: 0, resent: 0 };

/** Deliveries that got no 202 and are sent again, each with the time when this is due. */
const again: { call: number; at: number }[] = [];
const AGAIN_AFTER_MS = 2000;

/** Creates the traffic of one connection. It sends due retries first, and has one delivery in flight at a time. */
function toTraffic(): Traffic {
  let inFlight = 0;
  const send = (call: number): Buffer => {
    inFlight = call;
    open += 1;
    return toRequest(call);
  };
  const resend = (): void => {
    again.push({ call: inFlight, at: performance.now() + AGAIN_AFTER_MS });
    result.resent += 1;
  };
  return {
    next() {
      const [due] = again;
      if (due !== undefined && due.at <= performance.now()) {
        again.shift();
        return send(due.call);
      }
      if (upcoming.done === true) return undefined;
      const call = upcoming.value;
      const isRepeat = call < begun;
      if (!isRepeat && !mayBegin()) return undefined;
      if (isRepeat) result.repeats += 1;
      else begin(call);
      upcoming = plan.next();
      return send(call);
    },
    answered(status, head) {
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      if (/^idempotent-replayed: *true/im.test(head)) result.replayed += 1;
      open -= 1;
      if (status !== 202) resend();
    },
    lost() {
      open -= 1;
      resend();
    },
  };
}

function mayBegin(): boolean {
  return begun - succeeded < openMax && allowance >= 1;
}

function begin(call: number): void {
  begun += 1;
  if (isLarge(call)) result.large += 1;
  allowance -= 1;
}

function allow(): void {
  const now = performance.now();
  allowance = Math.min(allowance + ((now - allowedAt) * perSecond) / 1000, perSecond);
  allowedAt = now;
}

function toRequest(call: number): Buffer {
  const body = bodyOf(call);
  const head = [
    `POST ${hookPath(jobOf(call))} HTTP/1.1`,
    `Host: ${address}`,
    "Content-Type: application/json",
    `Content-Length: ${body.length}`,
    `X-Signature-256: sha256=${createHmac("sha256", SECRET).update(body).digest("hex")}`,
    `X-Delivery-Id: delivery-${call}`,
  ];
  return Buffer.concat([Buffer.from(`${head.join("\r\n")}\r\n\r\n`), body]);
}

async function readCounts(): Promise<void> {
  const runs = (await (await fetch(countUrl)).json()) as SoakRuns;
  if (runs.succeeded > succeeded) progressAt = performance.now();
  succeeded = runs.succeeded;
  if (performance.now() - progressAt > PATIENCE_MS)
    throw new Error(
      `no call has succeeded for ${PATIENCE_MS} ms; ${succeeded} of ${begun} sent calls have succeeded`,
    );
}

const connections = Array.from({ length: options.connections }, () => new Connection(address, toTraffic()));
while (upcoming.done !== true || open > 0 || again.length > 0) {
  await readCounts();
  allow();
  for (const connection of connections) connection.send();
  await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
}
for (const connection of connections) connection.end();

statuses.delete(202);
const sent: SoakSent = { ...result, refused: Object.fromEntries(statuses) };
console.log(JSON.stringify(sent));
