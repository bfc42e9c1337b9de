import { tokenOf } from "../../../shared/config/accepted-tokens.ts";
import type { AcceptedToken } from "../../../shared/config/x402-toml.ts";
import { messageOf } from "../../../shared/errors/app-error.ts";
import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import { chainOfToken } from "../../../shared/payments/chain-of-token.ts";
import { type ClosedRefund, createCloseRefunds } from "../../../shared/payments/close-refunds.ts";
import { createPaymentJournal } from "../../../shared/payments/journal.ts";
import type { Payment } from "../../../shared/payments/payment.ts";
import { createRefunds } from "../../../shared/payments/refunds.ts";
import type { Partition } from "../../../shared/redis/partition.ts";
import { systemClock } from "../../../shared/time/clock.ts";
import { readAcceptedTokens } from "../accepted-tokens.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { jsonLine } from "../text.ts";
import { withRedis } from "../with-redis.ts";
import { LATE } from "./show.ts";

export type RefundCheckOptions = { configDir: string; json?: boolean };

/**
 * `postern payments refund-check`: closes the cases that a transfer has paid back, and says which are still open. 1 if some could not be
 * looked for: their token is not configured, its node does not answer, or what is stored of them cannot be read.
 */
export function checkRefunds(deps: ProgramDeps, options: RefundCheckOptions): Promise<number> {
  const accepted = readAcceptedTokens(deps, options.configDir);
  if (accepted === undefined) return Promise.resolve(EXIT.config);
  return withRedis(deps, options, async ({ partition }) => {
    const problems: string[] = [];
    const pending = await readPending(partition, problems);
    const closed: ClosedRefund[] = [];
    for (const token of accepted) {
      const found = closeOf(partition, token, pending, (each) => closed.push(each));
      await found.catch((error) => problems.push(`${token.symbol} on ${token.network}: ${messageOf(error)}`));
    }
    const outcome = toOutcome(pending, closed, accepted);
    if (options.json) deps.print(jsonLine(toJson(outcome)));
    deps.say(inWords(outcome));
    for (const problem of problems) deps.printError(`${problem}\n`);
    return outcome.unwatched.length + problems.length > 0 ? EXIT.failed : EXIT.ok;
  });
}

async function readPending(partition: Partition, problems: string[]): Promise<Payment[]> {
  const journal = createPaymentJournal(partition);
  const pending: Payment[] = [];
  for (const id of await createRefunds(partition).pending()) {
    const payment = await journal.look(id).catch((error) => void problems.push(`${id}: ${messageOf(error)}`));
    if (payment !== undefined) pending.push(payment);
  }
  return pending;
}

async function closeOf(
  partition: Partition,
  token: AcceptedToken,
  pending: readonly Payment[],
  onClosed: (closed: ClosedRefund) => void,
): Promise<void> {
  const cases = pending.filter(({ terms }) => tokenOf([token], terms) !== undefined);
  const chain = chainOfToken(token);
  if (cases.length === 0 || chain === undefined) return;
  const closeRefunds = createCloseRefunds({ chain, refunds: createRefunds(partition), clock: systemClock });
  for await (const closed of closeRefunds({ asset: token.asset, senders: token.refund_from, cases }))
    onClosed(closed);
}

type Outcome = { closed: readonly ClosedRefund[]; open: Payment[]; unwatched: Payment[] };

/** A case of a token without a node or a sender is not looked for. */
function toOutcome(
  pending: readonly Payment[],
  closed: readonly ClosedRefund[],
  accepted: readonly AcceptedToken[],
): Outcome {
  const ids = new Set(closed.map(({ payment }) => payment.id));
  const left = pending.filter(({ id }) => !ids.has(id));
  const isWatched = ({ terms }: Payment): boolean => {
    const token = tokenOf(accepted, terms);
    return token?.rpc_url !== undefined && token.refund_from.length > 0;
  };
  return { closed, open: left.filter(isWatched), unwatched: left.filter((payment) => !isWatched(payment)) };
}

function inWords({ closed, open, unwatched }: Outcome): string {
  const late = ({ id, lateAt }: Payment) => (lateAt === undefined ? [] : [`ATTENTION: ${id}: ${LATE}\n`]);
  return [
    ...closed.map(
      ({ payment, transfer }) => `${payment.id} is paid back by transaction ${transfer.transaction}\n`,
    ),
    ...open.map(({ id, refund }) => `${id} is not paid back yet (export ${refund?.export})\n`),
    ...unwatched.map(
      ({ id, terms }) =>
        `${id} cannot be looked for: x402.toml has no refund_from or no rpc_url for ${terms.asset} on ${terms.network}\n`,
    ),
    ...[...closed.map(({ payment }) => payment), ...open, ...unwatched].flatMap(late),
    `${closed.length} paid back now, ${open.length + unwatched.length} still open\n`,
  ].join("");
}

/** For scripts. */
function toJson({ closed, open, unwatched }: Outcome) {
  return {
    closed: closed.map(({ payment, transfer }) => ({
      ...{ call_id: payment.id, transaction: transfer.transaction, position: transfer.position },
      ...{ block: String(transfer.block), from: transfer.from },
    })),
    open: open.map(({ id, refund }) => ({ call_id: id, export: refund?.export })),
    not_looked_for: unwatched.map(({ id }) => id),
  };
}
