import type { Secret } from "../../shared/crypto/secret.ts";
import { AppError } from "../../shared/errors/app-error.ts";
import type { Address } from "../../shared/evm/address.ts";
import { keccak256Hex } from "../../shared/evm/keccak.ts";
import { addressWord, uintWord } from "../../shared/evm/words.ts";
import type { Clock } from "../../shared/time/clock.ts";
import { type Outcome, within } from "../../shared/time/within.ts";

/** What is needed of a chain: `eth_call` at its head, which resolves with the bytes returned, in hex. */
export type ContractCalls = {
  ethCall(call: { to: Address; data: `0x${string}` }): Promise<`0x${string}`>;
};

export type CallerQuestion = {
  policy: { contract: Address; rpcUrl: Secret };
  serviceId: number;
  caller: Address;
};

/** Whether the policy's contract permits the caller. Throws `caller.check_unavailable` where it does not say. */
export type IsPermittedCaller = (question: CallerQuestion) => Promise<boolean>;

type Options = {
  chainAt: (rpcUrl: Secret) => ContractCalls;
  clock: Clock;
  deadlineMs?: number;
  entriesMax?: number;
};

/** A yes may outlive a revocation by this long; a no makes a newly permitted caller wait less. */
const YES_MS = 30_000;
const NO_MS = 5_000;

const SELECTOR = keccak256Hex(Buffer.from("isPermittedCaller(uint64,address)")).slice(0, 10);

/**
 * Asks `isPermittedCaller(uint64,address)` with a deadline, once for all who ask the same at a time, and remembers answers
 * for seconds. Failures are not remembered, and neither their text nor their cause is passed on: libraries put the RPC
 * URL, which may hold a key, into both.
 */
export function createIsPermittedCaller(options: Options): IsPermittedCaller {
  const { chainAt, deadlineMs = 3000 } = options;
  const answers = createAnswers(options);
  const pending = new Map<string, Promise<boolean>>();

  async function ask({ policy, serviceId, caller }: CallerQuestion): Promise<boolean> {
    const data: `0x${string}` = `0x${SELECTOR.slice(2)}${uintWord(BigInt(serviceId))}${addressWord(caller)}`;
    const work = async () => chainAt(policy.rpcUrl).ethCall({ to: policy.contract, data });
    return toAnswer(await within(deadlineMs, work()), deadlineMs);
  }

  async function askAndRemember(key: string, question: CallerQuestion): Promise<boolean> {
    try {
      const permitted = await ask(question);
      answers.set(key, permitted);
      return permitted;
    } finally {
      pending.delete(key);
    }
  }

  return async function isPermittedCaller(question) {
    const key = keyOf(question);
    const known = answers.get(key) ?? pending.get(key);
    if (known !== undefined) return known;
    const asked = askAndRemember(key, question);
    pending.set(key, asked);
    return asked;
  };
}

/** Answers by question, each until its time is over; beyond `entriesMax` the oldest goes. */
function createAnswers({ clock, entriesMax = 10_000 }: Options) {
  const entries = new Map<string, { permitted: boolean; until: number }>();
  return {
    get(key: string): boolean | undefined {
      const entry = entries.get(key);
      return entry !== undefined && entry.until > clock() ? entry.permitted : undefined;
    },
    set(key: string, permitted: boolean): void {
      entries.delete(key);
      entries.set(key, { permitted, until: clock() + (permitted ? YES_MS : NO_MS) });
      const oldest = entries.size > entriesMax ? entries.keys().next().value : undefined;
      if (oldest !== undefined) entries.delete(oldest);
    },
  };
}

function keyOf({ policy, serviceId, caller }: CallerQuestion): string {
  return `${caller} ${serviceId} ${policy.contract} ${policy.rpcUrl.reveal()}`;
}

/** A contract's bool is a word of 0 or 1; no word at all means that there is no such contract. */
function toAnswer(outcome: Outcome<string>, deadlineMs: number): boolean {
  switch (outcome.kind) {
    case "late":
      throw unavailable(`no answer within ${deadlineMs} ms`);
    case "failed":
      throw unavailable(safeReason(outcome.error));
    case "done": {
      const bit = /^0x0{63}([01])$/.exec(outcome.result)?.[1];
      if (bit === undefined) throw unavailable("the contract's answer is not a bool");
      return bit === "1";
    }
  }
}

/** The chain's own errors have no URL in them (shared/chain); of any other only the name is told. */
function safeReason(error: unknown): string {
  if (error instanceof AppError) return error.message;
  return error instanceof Error ? error.name : "it failed";
}

function unavailable(what: string): AppError {
  return new AppError("caller.check_unavailable", {
    reason: `isPermittedCaller: ${what}`,
    retryAfterMs: 1000,
  });
}
