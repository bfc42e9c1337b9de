import type { Secret } from "../../../shared/crypto/secret.ts";
import { AppError } from "../../../shared/errors/app-error.ts";
import type { Address } from "../../../shared/ethereum/address.ts";
import { addressWord, keccak256Hex, uintWord } from "../../../shared/ethereum/encoding.ts";
import type { Clock } from "../../../shared/time/clock.ts";
import { createConcurrencyLimit } from "../concurrency-limit.ts";

/** What is needed of a chain: `eth_call` at its head, which has a deadline and resolves with the bytes returned, in hex. */
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
  /** Asked for once for each node. */
  chainAt: (rpcUrl: Secret) => ContractCalls;
  clock: Clock;
  callersMax?: number;
};

/** A revocation takes this long to be seen. */
const PERMITTED_MS = 30_000;
/** Anybody can make up callers, and each is a question: no more of the node's time than this is strangers'. */
const QUESTIONS_MAX = 64;

const SELECTOR = keccak256Hex(Buffer.from("isPermittedCaller(uint64,address)")).slice(0, 10);

/**
 * Asks `isPermittedCaller(uint64,address)`, once for all who ask the same at a time and not too much at once, and remembers
 * for seconds who is permitted; who is not is not remembered, so that strangers displace nobody. Failures are not remembered
 * either, and neither their text nor their cause is passed on: libraries put the RPC URL, which may hold a key, into both.
 */
export function createIsPermittedCaller({ chainAt, ...options }: Options): IsPermittedCaller {
  const permitted = createPermitted(options);
  const pending = new Map<string, Promise<boolean>>();
  const chains = new Map<string, ContractCalls>();
  const questions = createConcurrencyLimit({
    max: QUESTIONS_MAX,
    what: "questions about callers",
    code: "caller.check_unavailable",
  });

  function chainOf(rpcUrl: Secret): ContractCalls {
    const url = rpcUrl.reveal();
    const chain = chains.get(url) ?? chainAt(rpcUrl);
    chains.set(url, chain);
    return chain;
  }

  async function ask({ policy, serviceId, caller }: CallerQuestion): Promise<boolean> {
    const data: `0x${string}` = `0x${SELECTOR.slice(2)}${uintWord(BigInt(serviceId))}${addressWord(caller)}`;
    const work = async () => chainOf(policy.rpcUrl).ethCall({ to: policy.contract, data });
    const word = await work().catch((error: unknown) => {
      throw unavailable(safeReason(error));
    });
    return toAnswer(word);
  }

  async function askAndRemember(key: string, question: CallerQuestion): Promise<boolean> {
    const answer = await ask(question);
    if (answer) permitted.add(key);
    return answer;
  }

  function askOnce(key: string, question: CallerQuestion): Promise<boolean> {
    const leave = questions.enter();
    const asked = askAndRemember(key, question).finally(() => {
      leave();
      pending.delete(key);
    });
    pending.set(key, asked);
    return asked;
  }

  return async function isPermittedCaller(question) {
    const key = keyOf(question);
    if (permitted.has(key)) return true;
    return pending.get(key) ?? askOnce(key, question);
  };
}

/** Who is permitted, each until its time is over; beyond `callersMax` the oldest goes. */
function createPermitted({ clock, callersMax = 10_000 }: Omit<Options, "chainAt">) {
  const until = new Map<string, number>();
  return {
    has: (key: string): boolean => (until.get(key) ?? 0) > clock(),
    add(key: string): void {
      until.delete(key);
      until.set(key, clock() + PERMITTED_MS);
      const oldest = until.size > callersMax ? until.keys().next().value : undefined;
      if (oldest !== undefined) until.delete(oldest);
    },
  };
}

function keyOf({ policy, serviceId, caller }: CallerQuestion): string {
  return `${caller} ${serviceId} ${policy.contract} ${policy.rpcUrl.reveal()}`;
}

/** A contract's bool is a word of 0 or 1; no word at all means that there is no such contract. */
function toAnswer(word: string): boolean {
  const bit = /^0x0{63}([01])$/.exec(word)?.[1];
  if (bit === undefined) throw unavailable("the contract's answer is not a bool");
  return bit === "1";
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
