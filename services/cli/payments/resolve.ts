import { createAudit } from "../../../shared/audit/audit.ts";
import type { EventOrder } from "../../../shared/ethereum/eip3009.ts";
import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import { createPaymentJournal, type Found } from "../../../shared/payments/journal.ts";
import { type Payment, toAuthorization } from "../../../shared/payments/payment.ts";
import { createResolve, type Verdict } from "../../../shared/payments/resolve.ts";
import { TRANSFER_TAKEN } from "../../../shared/payments/scripts.ts";
import { createCountOnce } from "../../../shared/series/count-once.ts";
import { systemClock } from "../../../shared/time/clock.ts";
import { readAcceptedTokens, tokenOf } from "../accepted-tokens.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { operatorName } from "../terminal.ts";
import { jsonLine } from "../text.ts";
import { withRedis } from "../with-redis.ts";
import { chainOfToken } from "./chain-of-token.ts";
import { decisionText, unknown } from "./show.ts";

export type ResolveOptions = {
  configDir: string;
  settled?: boolean;
  void?: boolean;
  acknowledged?: boolean;
  transaction?: string;
  reason: string;
  json?: boolean;
};

/** `postern payments resolve`: an operator decides on a payment in REVIEW, or acknowledges a disputed one. 1 if it is neither. */
export function resolvePayment(deps: ProgramDeps, id: string, options: ResolveOptions): Promise<number> {
  return withRedis(deps, options, async ({ partition, postern, log }) => {
    const journal = createPaymentJournal(partition);
    const payment = await journal.look(id);
    if (payment === undefined) throw new Error(unknown(id));
    const verdict = await verdictOf(deps, options, payment);
    const audit = createAudit(partition, log);
    const resolve = createResolve({
      ...{ journal, audit, clock: systemClock, by: operatorName() },
      ...(postern.console.report && { count: createCountOnce(partition, systemClock) }),
    });
    const resolved = await resolve(payment, verdict, options.reason);
    if (resolved.kind === "left") throw new Error(whyLeft(payment, options, resolved.state));
    const { transaction } = options;
    const json = { call_id: id, verdict: verdict.kind, transaction: transaction ?? null };
    if (options.json) deps.print(jsonLine(json));
    deps.say(`${id} is ${DONE[verdict.kind]}\n`);
    return EXIT.ok;
  });
}

function whyLeft({ id, decided, acknowledged }: Payment, options: ResolveOptions, state: Found): string {
  if (state === TRANSFER_TAKEN)
    return `this transfer of ${options.transaction} pays for another call; nothing was changed`;
  const which = options.acknowledged
    ? "only a disputed payment can be acknowledged"
    : "only a payment in review can be resolved";
  const left = `${id} is ${state?.toLowerCase() ?? "gone"}: ${which}; nothing was changed`;
  // An earlier run may have died between its decision and its line in the audit.
  const earlier = options.acknowledged ? acknowledged : decided;
  return earlier === undefined ? left : `${left}. It was decided ${decisionText(earlier)}`;
}

async function verdictOf(deps: ProgramDeps, options: ResolveOptions, payment: Payment): Promise<Verdict> {
  if (options.acknowledged) return { kind: "acknowledged" };
  if (options.transaction === undefined) return { kind: "void" };
  return settledBy(deps, options, payment, options.transaction);
}

/** Asks the chain for the transfer, unless the token has no node to ask. Throws what it shows instead. */
async function settledBy(
  deps: ProgramDeps,
  { configDir }: ResolveOptions,
  { id, terms }: Payment,
  transaction: string,
): Promise<Verdict> {
  const token = tokenOf(readAcceptedTokens(deps, configDir) ?? [], terms);
  if (token === undefined)
    throw new Error(
      `x402.toml has no token ${terms.asset} on ${terms.network}, so its chain cannot be asked`,
    );
  const chain = chainOfToken(token);
  if (chain === undefined) return { kind: "settled", transaction, positions: [] };
  const authorization = toAuthorization(terms, token.event_order);
  const proof = await chain.proofOf(transaction as `0x${string}`, authorization);
  if (proof?.kind === "paid") return { kind: "settled", transaction, positions: [proof.position] };
  if (proof?.kind === "wrapped") return { kind: "settled", transaction, positions: proof.positions };
  throw new Error(
    `${NOT_SHOWN[proof?.kind ?? "gone"](transaction, token.event_order)}; ${id} was not changed`,
  );
}

const NOT_SHOWN = {
  gone: (transaction: string) => `the chain has no transaction ${transaction}`,
  none: (transaction: string) => `transaction ${transaction} does not pay this`,
  unpaired: (transaction: string, order: EventOrder | undefined) =>
    `transaction ${transaction} does not have use and transfer beside each other as event_order = "${order}" has them`,
  short: (transaction: string) => `transaction ${transaction} has brought less than the payment's amount`,
};

const DONE = {
  void: "void, by your word",
  settled: "settled; its call is in the queue",
  acknowledged: "acknowledged: it stays as it is, and is listed as disputed no more",
};
