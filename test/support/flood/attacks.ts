import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { toHex } from "../../../shared/chain/encoding.ts";
import { systemClock } from "../../../shared/platform/time/clock.ts";
import { challengeOf, encodeProof, randomNonce, workHash } from "../../../shared/pricing/proof-of-work.ts";
import type { Pieces } from "./hostile-client.ts";
import { createPay, newKey, requiredIn } from "./payments.ts";
import {
  type Attack,
  type HostilePlan,
  JOB_PATH,
  LARGE_BODY_BYTE,
  LARGE_BYTES,
  RESTRICTED_PATH,
} from "./plans.ts";

/** Returns the next request of connection `i`, with the head lines that a proxy would add; undefined after the last. */
export type NextRequest = (i: number, proxied: string) => Pieces | undefined;

const LARGE = Buffer.alloc(LARGE_BYTES, LARGE_BODY_BYTE);
const SMALL = Buffer.from('{"buy":"nothing"}');

/** Chooses a variant by the connection's number, so that all variants have equally many connections. */
const oneOf = <Each>(all: readonly Each[], i: number): Each => all[i % all.length] as Each;

export const createAttack: Readonly<Record<Attack, (plan: HostilePlan) => NextRequest>> = {
  "fresh-keys"(plan) {
    const payments = takePool(plan);
    return (_i, proxied) => [head(JOB_PATH, payment(payments()) + proxied, SMALL.length), SMALL];
  },

  "one-header"(plan) {
    const replayed = takePool(plan)();
    return (_i, proxied) => [head(JOB_PATH, payment(replayed) + proxied, SMALL.length), SMALL];
  },

  /** Repeats a settled payment: half of the time with its own body, otherwise with another body of the same size. */
  repeats({ known }) {
    const other = Buffer.concat([LARGE.subarray(1), Buffer.from("y")]);
    const request = head(JOB_PATH, payment(known), LARGE.length);
    return (i) => [request, oneOf([LARGE, other], i)];
  },

  /** Sends a valid payment with the same large body on every connection at once, then the next payment. */
  copies({ required, fundedKey, connections }) {
    const pay = createPay(requiredIn(required));
    let copied = "";
    let sent = 0;
    return () => {
      if (sent++ % connections === 0) copied = head(JOB_PATH, payment(pay(fundedKey)), LARGE.length);
      return [copied, LARGE];
    };
  },

  /**
   * Keeps connections idle. A fifth of them send nothing, and the others announce the body of a payment and never
   * send it.
   */
  idle(plan) {
    const payments = takePool(plan);
    return (i) => (i % 5 === 0 ? [] : [head(JOB_PATH, payment(payments()), LARGE.length)]);
  },

  "dry-runs"(plan) {
    const payments = takePool(plan);
    const sorts = [true, false].flatMap((isPaid) => [SMALL, LARGE].map((body) => ({ isPaid, body })));
    return (i) => {
      const { isPaid, body } = oneOf(sorts, i);
      return [head(`${JOB_PATH}/auth-dry-run`, isPaid ? payment(payments()) : "", body.length), body];
    };
  },

  /**
   * Sends wrong proofs of a caller. Half of the requests have payments of a payer with money, so that no check of the
   * balance refuses them first. The other half are dry runs, which need no payment.
   */
  "caller-proofs"({ requiredOfRestricted, fundedKey }) {
    const pay = createPay(requiredIn(requiredOfRestricted));
    const requests = Array.from({ length: 2000 }, (_, nonce) => {
      const proof = wrongProof(nonce);
      return nonce % 2 === 0
        ? head(RESTRICTED_PATH, payment(pay(fundedKey)) + proof, LARGE.length)
        : head(`${RESTRICTED_PATH}/auth-dry-run`, proof, LARGE.length);
    });
    let at = 0;
    return () => [oneOf(requests, at++), LARGE];
  },

  /** Sends wrong proofs of work: half of them have no work, and half have too little work for this puzzle. */
  "work-proofs"() {
    const bodies = Array.from({ length: 512 }, (_, i) => wrongWork(i));
    let at = 0;
    return () => {
      const body = oneOf(bodies, at++);
      return [head("/pricing/jobs/1/7/quote", "Content-Type: application/json\r\n", body.length), body];
    };
  },
};

function head(path: string, fields: string, length: number): string {
  return `POST ${path} HTTP/1.1\r\nHost: pay.test\r\n${fields}Content-Length: ${length}\r\n\r\n`;
}

function payment(value: string): string {
  return `PAYMENT-SIGNATURE: ${value}\r\n`;
}

/** Returns a function that gives the payments of the pool in turn. */
function takePool({ pool, turn }: HostilePlan): () => string {
  const payments = readFileSync(pool, "latin1").split("\n");
  let at = Math.floor(turn * payments.length);
  return () => oneOf(payments, at++);
}

/** Returns the four headers of a caller's proof. All are valid except the signature, which is by another key. */
function wrongProof(nonce: number): string {
  const signature = `0x${randomBytes(31).toString("hex").padStart(64, "0")}${"11".repeat(32)}1b`;
  const headers = {
    "X-PLATFORM-CALLER": newKey().slice(0, 42),
    "X-PLATFORM-CALLER-NONCE": `nonce-${nonce}`,
    "X-PLATFORM-CALLER-SIG": signature,
    "X-PLATFORM-CALLER-EXPIRY": String(Math.floor(systemClock() / 1000) + 300),
  };
  return Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join("");
}

function wrongWork(i: number): Buffer {
  const timestamp = BigInt(Math.floor(systemClock() / 1000));
  const { hash, nonce } = i % 2 === 0 ? { hash: randomBytes(32), nonce: 0n } : tooLittleWork(timestamp);
  const request = {
    requester: newKey().slice(0, 42),
    inputs_hash: newKey(),
    challenge_timestamp: String(timestamp),
    proof_of_work: toHex(encodeProof(hash, nonce)),
  };
  return Buffer.from(JSON.stringify(request));
}

function tooLittleWork(timestamp: bigint): { hash: Buffer; nonce: bigint } {
  const challenge = challengeOf({ serviceId: 1n, timestamp });
  for (;;) {
    const nonce = randomNonce();
    const hash = workHash(challenge, nonce);
    if (hash[0] !== 0) return { hash, nonce };
  }
}
