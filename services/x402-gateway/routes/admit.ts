import type { IncomingMessage } from "node:http";
import { codingUnsupported, contentCoding } from "../../../shared/http/body.ts";
import { failpoint } from "../../../shared/lifecycle/failpoint.ts";
import type { Logger } from "../../../shared/log/logger.ts";
import type { Clock } from "../../../shared/time/clock.ts";
import type { AskedJob } from "../asked-job.ts";
import type { Job, Token } from "../catalog.ts";
import type { Facilitators } from "../facilitator/pool.ts";
import { verifyPayment } from "../facilitator/verify-payment.ts";
import { type Agreed, type AgreeSettings, agree } from "../payment/agree.ts";
import { assertInputs, assertRequester } from "../payment/operator-quote.ts";
import { inTakenToken, type TakenPayment } from "../payment/signer.ts";
import type { AuthorizeCaller, AuthorizedCaller } from "../policy/caller.ts";
import type { Arrival } from "./find-known.ts";

export type AdmitDeps = {
  askedJob: AskedJob;
  /** Throws what keeps calls from being taken now: start, stop, Redis, backpressure. */
  assertOpen: () => void;
  authorizeCaller: AuthorizeCaller;
  facilitators: Facilitators;
  /** A block of the token's chain that no payment claimed from now on can be before. */
  headOf: (token: Token) => bigint;
  settings: AgreeSettings & { bodyBytesMax: number };
  clock: Clock;
  log: Logger;
};

/** A payment that nothing refuses, and what was found out on the way. */
export type Admitted = {
  signed: TakenPayment;
  job: Job;
  agreed: Agreed;
  body: Buffer;
  caller: AuthorizedCaller | undefined;
  /** Which facilitator verified it: the one to settle. */
  facilitator: string;
  sinceBlock: bigint;
};

export type Admit = (req: IncomingMessage, arrival: Arrival) => Promise<Admitted>;

/** All that can refuse a payment nobody has seen before, in this order; none of it moves money. */
export function createAdmit(deps: AdmitDeps): Admit {
  const { settings, clock } = deps;
  return async function admit(req, { ids, signed: found, readBody }) {
    const job = deps.askedJob(req, ids);
    deps.assertOpen();
    assertNotEncoded(req);
    const signed = inTakenToken(found);
    const agreed = agree(signed, job, { settings, now: clock() });
    if (job.quote !== undefined) assertRequester(job.quote, signed.payer);
    // Before the facilitator looks whether the nonce is unused: a later head could be past the block that uses it.
    const sinceBlock = deps.headOf(signed.token);
    const body = await readBody(settings.bodyBytesMax);
    if (job.quote !== undefined) assertInputs(job.quote, body);
    const caller = await deps.authorizeCaller({ job, req, body, payer: signed.payer });
    const facilitator = await verifyPayment(deps, signed, agreed);
    failpoint("x402.after_verify");
    return { signed, job, agreed, body, caller, facilitator, sinceBlock };
  };
}

/** The runner would get a coded body without being told of its coding. */
function assertNotEncoded(req: IncomingMessage): void {
  const coding = contentCoding(req);
  if (coding !== undefined) throw codingUnsupported(coding, "jobs take no Content-Encoding");
}
