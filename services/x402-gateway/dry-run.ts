import type { IncomingMessage, ServerResponse } from "node:http";
import { AppError } from "../../shared/errors/app-error.ts";
import { readBody } from "../../shared/http/read-body.ts";
import type { JobIds } from "../../shared/prices/price-list.ts";
import type { Clock } from "../../shared/time/clock.ts";
import { type AgreeSettings, agree } from "./agree.ts";
import type { AuthorizeCaller } from "./caller-policy.ts";
import type { Catalogue, Job } from "./catalogue.ts";
import { identifyPayment } from "./identify.ts";
import { hasPayment, readPayment } from "./payment-header.ts";
import { sendJson } from "./send-json.ts";
import { soldJob } from "./sold-job.ts";

type Deps = {
  catalogue: Catalogue;
  authorizeCaller: AuthorizeCaller;
  /** Whether a payment has used this nonce up. */
  isNonceUsed: (hash: string) => Promise<boolean>;
  settings: AgreeSettings & { bodyBytesMax: number };
  clock: Clock;
};

type Arrival = { req: IncomingMessage; res: ServerResponse; ids: JobIds };

/**
 * POST …/auth-dry-run: whether this caller may buy the job, or the refusal a payer would meet. Nothing is charged, and no
 * nonce is used up. `payer_is_caller` needs a payment, to say who the payer is; it is not settled.
 */
export function createDryRun(deps: Deps) {
  return async function dryRun({ req, res, ids }: Arrival): Promise<void> {
    const job = soldJob(deps.catalogue, ids);
    const payer = payerOf(deps, req, job);
    const body = await readBody(req, res, deps.settings.bodyBytesMax);
    const caller = await deps.authorizeCaller({ job, req, body, payer: payer ?? NOBODY });
    if (caller?.nonce !== undefined && (await deps.isNonceUsed(caller.nonce.hash))) {
      throw new AppError("caller.nonce_used", { reason: "the caller's nonce was used by a payment" });
    }
    sendJson(res, 200, {
      allowed: true,
      mode: job.policy.mode,
      ...(caller !== undefined && { caller: caller.address }),
    });
  };
}

/** For policies that do not look at the payer. */
const NOBODY = "0x0000000000000000000000000000000000000000";

function payerOf(
  { catalogue, settings, clock }: Deps,
  req: IncomingMessage,
  job: Job,
): `0x${string}` | undefined {
  if (hasPayment(req)) {
    const signed = identifyPayment(readPayment(req), catalogue.tokens);
    agree(signed, job, { settings, now: clock() });
    return signed.payer;
  }
  if (job.policy.mode !== "restricted_paid" || job.policy.authMode !== "payer_is_caller") return undefined;
  throw new AppError("payment.required", {
    reason: "the caller is the payer, and there is no payment",
    publicDetail: "the caller of this job is its payer: send a payment header, which is not charged here",
  });
}
