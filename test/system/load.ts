import { setTimeout as pause } from "node:timers/promises";
import type { TomlTable } from "smol-toml";
import { expect } from "vitest";
import type { DevAccount } from "../../services/dev/chain/chain.ts";
import { createResults } from "../../shared/call/results/store.ts";
import type { UsedDevnet } from "../fixtures/devnet.ts";
import type { Places } from "../fixtures/redis.ts";
import type { UsedStack } from "../fixtures/stack.ts";
import { proofOf } from "../services/x402-gateway/restricted-jobs.ts";
import { violationsIn } from "../support/books.ts";
import { newPayer } from "../support/devnet.ts";
import { type Answer, send } from "../support/http.ts";
import type { Payer } from "../support/sign-payment.ts";
import { setAnswers } from "../support/wallets.ts";
import { createBuyer, type Purchase } from "./fleet/buyer.ts";
import type { seeded } from "./fleet/seeded.ts";
import { untilDrained } from "./fleet/until-drained.ts";
import { type Customer, sellingToAllKinds, transfersOfAllKinds } from "./payers.ts";

/** After one purchase in this many, a wallet denies its signature, and the payment is sent again. */
const DENIED_ONCE_IN = 2;
const RETRY_PAUSE_MS = 50;

/** Deliveries to `/hook` have an id from their sender, and those to `/free` have none. */
export const LOAD_ENDPOINTS: readonly TomlTable[] = [
  { path: "/hook", job_id: 1, auth: "none", idempotency_header: "X-Delivery-Id", keep_result: true },
  { path: "/free", job_id: 1, auth: "none", keep_result: true },
];

/** Job that is sold only with a proof of a permitted caller. */
const DELEGATED_JOB = 3;

/** Sells this job in addition to the other one. */
export function sellingToPairs(devnet: UsedDevnet) {
  const { callerRegistry: contract, rpcUrl: rpc_url } = devnet;
  const mode = { invocation_mode: "restricted_paid", auth_mode: "delegated_caller_signature" };
  const policy = { service_id: 1, job_index: DELEGATED_JOB, contract, rpc_url, ...mode };
  // One payer of each pair is refused, and its verifies count as unpaid, so these limits must be high.
  const unpaid = { unpaid_verifies_per_payer: 10_000, unpaid_verifies_per_address: 10_000 };
  const { prices, ...sale } = sellingToAllKinds(devnet, { job_policies: [policy], ...unpaid });
  return { ...sale, prices: { "1": { ...prices["1"], [DELEGATED_JOB]: prices["1"]["1"] } } };
}

type Options = { stack: UsedStack<Places>; devnet: UsedDevnet; chance: ReturnType<typeof seeded> };

/**
 * Senders and buyers that repeat each webhook and payment until it is accepted, and the checks that must hold
 * afterwards.
 */
export class Load {
  readonly #options: Options;
  readonly #buyer;
  readonly #delegatedBuyer;
  readonly #clients: Promise<void>[] = [];
  readonly #delivered: string[] = [];
  readonly #bought: Purchase[] = [];
  /** Purchases that two payers made with the same nonce of a caller. */
  readonly #pairs: [Purchase, Purchase][] = [];
  #isOver = false;

  constructor(options: Options) {
    this.#options = options;
    this.#buyer = createBuyer({ devnet: options.devnet, path: "/x402/jobs/1/1" });
    this.#delegatedBuyer = createBuyer({ devnet: options.devnet, path: `/x402/jobs/1/${DELEGATED_JOB}` });
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  get seen(): string {
    const repeats = this.#bought.reduce((count, { told }) => count + told.length, 0);
    const pairs = `${this.#pairs.length} of them with a nonce that another payer used`;
    return `${this.#delivered.length} delivered, ${this.#bought.length} bought (${repeats} answers), ${pairs}`;
  }

  begin(senders: number, customers: readonly Customer[]): void {
    for (let sender = 0; sender < senders; sender++) this.#clients.push(this.#deliverAll(sender));
    for (const customer of customers) this.#clients.push(this.#buyAll(customer));
  }

  /** Starts two buyers that use each nonce of a caller at the same time. Only one of them may buy. */
  async beginPairs(payers: readonly [Payer, Payer]): Promise<void> {
    const { devnet } = this.#options;
    const caller = await newPayer(devnet, 0n);
    await devnet.chain.permitCaller(1n, caller.address);
    this.#clients.push(this.#buyPairs(caller, payers));
  }

  async end(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#clients);
  }

  async #deliverAll(sender: number): Promise<void> {
    for (let n = 0; !this.#isOver; n++) await this.deliver(`${sender}-${n}`);
  }

  /**
   * Delivers this webhook until a gateway accepts it. A webhook without an id may be refused only if nothing was
   * written.
   */
  async deliver(id?: string, gateways = this.#options.stack.gateways): Promise<string> {
    for (;;) {
      const gateway = this.#options.chance.pick(gateways);
      const answer = await deliverOnce(gateway.address, id).catch(() => undefined);
      if (answer?.status === 202) return this.note(answer);
      await pause(RETRY_PAUSE_MS);
    }
  }

  /** Counts an accepted webhook. Returns the id of its call. */
  note(accepted: Answer): string {
    const callId = String(accepted.json()["call_id"]);
    this.#delivered.push(callId);
    return callId;
  }

  /** Buys one job after the other. Sends each payment twice at once, and repeats both until each has an answer. */
  async #buyAll(customer: Customer): Promise<void> {
    const { stack, chance } = this.#options;
    for (let n = 0; !this.#isOver; n++) {
      const purchase = await this.sign(customer, `the ${n}th`);
      await this.#buyer.buy(stack.x402, purchase, 2);
      if (chance.onceIn(DENIED_ONCE_IN)) await this.#repeatDenied(customer, purchase);
    }
  }

  /** Signs a payment for the price that a gateway states. The payment must be sent until it is accepted. */
  async sign({ payer, asset }: Customer, body: string): Promise<Purchase> {
    const { stack, chance } = this.#options;
    const purchase = await this.#buyer.sign(chance.pick(stack.x402), { payer, asset, version: 2, body });
    this.#bought.push(purchase);
    return purchase;
  }

  /** Sends a payment once. */
  post(purchase: Purchase): Promise<Answer | undefined> {
    const { stack, chance } = this.#options;
    return this.#buyer.post(chance.pick(stack.x402), purchase);
  }

  async #buyPairs(by: DevAccount, payers: readonly [Payer, Payer]): Promise<void> {
    const { stack, chance } = this.#options;
    const buyer = this.#delegatedBuyer;
    for (let n = 0; !this.#isOver; n++) {
      const body = `the ${n}th`;
      const proof = await proofOf({ by, nonce: `nonce-${n}`, body, job: DELEGATED_JOB });
      const sign = async (payer: Payer): Promise<Purchase> => {
        const purchase = await buyer.sign(chance.pick(stack.x402), { payer, version: 2, body });
        return { ...purchase, header: { ...purchase.header, ...proof } };
      };
      const pair: [Purchase, Purchase] = [await sign(payers[0]), await sign(payers[1])];
      this.#pairs.push(pair);
      this.#bought.push(...pair);
      await Promise.all(pair.map((purchase) => buyer.buy(stack.x402, purchase, 2)));
    }
  }

  /** Makes a wallet deny its signatures for a while, and sends its payment to all gateways again. */
  async #repeatDenied({ kind, payer }: Customer, purchase: Purchase): Promise<void> {
    const { stack, devnet } = this.#options;
    if (kind !== "wallet") return;
    await setAnswers(devnet, payer, "Never");
    await this.#buyer.buy(stack.x402, purchase, stack.x402.length);
    await setAnswers(devnet, payer, "Truly");
  }

  /** Checks that nothing was lost or doubled. `seen` describes the faults so far, for error messages. */
  async assertWhole(seen: string): Promise<void> {
    const { stack, devnet } = this.#options;
    for (const origin of ["webhook", "x402"] as const)
      expect(await untilDrained(stack.redis, origin), seen).toMatchObject({ failed: 0 });
    const delivered = [...new Set(this.#delivered)];
    const sold = new Set(this.#bought.flatMap(({ callIds }) => callIds));
    const told = this.#bought.flatMap((purchase) => purchase.told);
    const effects = stack.effects().map(({ callId }) => callId);
    expect(
      stack.effectsOf(delivered).filter((count) => count !== 1),
      seen,
    ).toEqual([]);
    expect(effects.filter((id) => !sold.has(id)).length, seen).toBe(delivered.length);
    expect(await this.#withoutResult(effects), seen).toEqual([]);
    expect(
      told.filter(({ status, code }) => status !== 202 && status !== 503 && code !== NONCE_USED),
      seen,
    ).toEqual([]);
    expect(
      this.#pairs
        .map((pair) => pair.map(endOf).toSorted().join())
        .filter((ends) => ends !== "bought,refused"),
      seen,
    ).toEqual([]);
    expect(
      violationsIn({
        ...{ chainId: devnet.chainId, asset: devnet.token, voids: [], told },
        transfers: await transfersOfAllKinds(devnet),
        calls: effects.filter((id) => sold.has(id)),
      }),
      seen,
    ).toEqual([]);
  }

  /** Returns the calls whose answer is not kept. */
  async #withoutResult(callIds: readonly string[]): Promise<object[]> {
    const results = this.#options.stack.redis.partitions.map(createResults);
    const read = await Promise.all(callIds.map(async (id) => ({ id, ...(await results.of(id).read(id)) })));
    return read.filter(
      (each) => each.kind !== "answer" || each.body.toString() !== JSON.stringify({ done: each.id }),
    );
  }
}

const NONCE_USED = "caller.nonce_used";

/** Summarizes both answers to a purchase. */
function endOf({ callIds, told }: Purchase): string {
  const isRefused = told.some(({ code }) => code === NONCE_USED);
  if (callIds.length > 0) return isRefused ? "bought and refused" : "bought";
  return isRefused ? "refused" : "open";
}

/** Sends a webhook to `/hook` with this id, or to `/free` without one. */
export function deliverOnce(address: string, id?: string): Promise<Answer> {
  return id === undefined
    ? send(address, { path: "/free", body: "of nobody" })
    : send(address, { path: "/hook", headers: { "X-Delivery-Id": id }, body: bodyOf(id) });
}

export const bodyOf = (id: string): string => `of ${id}`;
