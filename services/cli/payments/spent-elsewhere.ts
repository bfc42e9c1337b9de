import { tokenOf } from "../../../shared/config/accepted-tokens.ts";
import type { AcceptedToken } from "../../../shared/config/x402-toml.ts";
import { messageOf } from "../../../shared/errors/app-error.ts";
import type { Chain } from "../../../shared/ethereum/chain.ts";
import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import { chainOfToken } from "../../../shared/payments/chain-of-token.ts";
import { toAuthorization } from "../../../shared/payments/payment.ts";
import { createSpentElsewhere, type SpentElsewhere } from "../../../shared/payments/spent-elsewhere.ts";
import { toIso } from "../../../shared/time/iso.ts";
import { readAcceptedTokens } from "../accepted-tokens.ts";
import { createListing } from "../listing.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { toIsoSeconds } from "../text.ts";
import { withRedis } from "../with-redis.ts";
import { amountOf } from "./list.ts";

/** A limit of 0 is none. */
export type SpentElsewhereOptions = { limit: number; configDir: string; json?: boolean };

/** What the chain says of it. `paid`: whether the money has come to `pay_to`, if that is known. */
type Fate = { transaction?: string; paid?: boolean; text: string };

/** `postern payments spent-elsewhere`: payments that were refused because they were spent before, and in which transaction. */
export function listSpentElsewhere(deps: ProgramDeps, options: SpentElsewhereOptions): Promise<number> {
  const limit = options.limit === 0 ? Number.POSITIVE_INFINITY : options.limit;
  const tokens = readAcceptedTokens(deps, options.configDir);
  if (tokens === undefined) return Promise.resolve(EXIT.config);
  const chains = new Map(tokens.map((token) => [token, chainOfToken(token)]));
  return withRedis(deps, options, async ({ partition }) => {
    const listing = createListing<{ payment: SpentElsewhere; token: AcceptedToken | undefined; fate: Fate }>(
      deps,
      options.json,
      {
        columns: [
          { heading: "CALL", width: 34 },
          { heading: "CAME", width: 20 },
          { heading: "PAYER", width: 42 },
          { heading: "AMOUNT", width: 20 },
          { heading: "JOB", width: 8 },
          { heading: "WHAT THE CHAIN SAYS", cutTo: 40 },
        ],
        toCells: ({ payment, token, fate }) => toCells(payment, token, fate),
        toJson: ({ payment, fate }) => toJson(payment, fate),
      },
    );
    const payments = await createSpentElsewhere(partition).list(limit);
    for (const payment of payments) {
      const token = tokenOf(tokens, payment);
      const fate = await fateOf(payment, token, token && chains.get(token)).catch((error) => ({
        text: messageOf(error),
      }));
      listing.add({ payment, token, fate });
    }
    listing.end(
      `${payments.length} ${payments.length === 1 ? "payment" : "payments"} spent before they came`,
    );
    return EXIT.ok;
  });
}

async function fateOf(
  payment: SpentElsewhere,
  token: AcceptedToken | undefined,
  chain: Chain | undefined,
): Promise<Fate> {
  if (token === undefined || chain === undefined) return { text: "x402.toml has no rpc_url for its token" };
  const authorization = toAuthorization(payment, token.event_order);
  const spend = await chain.spentBefore(authorization, BigInt(payment.block));
  if (spend === undefined) return { text: "no transaction of the ten thousand blocks before has spent it" };
  const { transaction, how } = spend;
  if (how === "cancelled") return { transaction, paid: false, text: `cancelled in ${transaction}` };
  return { transaction, ...(await moneyIn(chain, transaction, authorization)) };
}

async function moneyIn(chain: Chain, transaction: string, authorization: ReturnType<typeof toAuthorization>) {
  const proof = await chain.proofOf(transaction as `0x${string}`, authorization);
  if (proof?.kind === "paid") return { paid: true, text: `paid to you in ${transaction}` };
  if (proof?.kind === "none") return { paid: false, text: `spent in ${transaction}, not on you` };
  return { text: `spent in ${transaction}, which does not show whether it has paid you` };
}

function toCells(payment: SpentElsewhere, token: AcceptedToken | undefined, { text }: Fate): string[] {
  const { id, at, payer } = payment;
  return [
    id,
    toIsoSeconds(at),
    payer,
    amountOf(payment, token?.decimals),
    `${payment.service_id}/${payment.job_index}`,
    text,
  ];
}

/** For scripts. Amounts are in the token's smallest unit. */
function toJson({ id, at, ...payment }: SpentElsewhere, { transaction, paid, text }: Fate) {
  return {
    call_id: id,
    came_at: toIso(at),
    ...payment,
    transaction: transaction ?? null,
    paid: paid ?? null,
    chain: text,
  };
}
