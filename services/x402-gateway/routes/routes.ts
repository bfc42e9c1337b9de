import type { RequestListener } from "node:http";
import type { X402Toml } from "../../../shared/config/x402-toml.ts";
import type { Secret } from "../../../shared/crypto/secret.ts";
import type { Admission } from "../../../shared/gateway/admission.ts";
import type { Readiness } from "../../../shared/http/readiness.ts";
import type { Logger } from "../../../shared/log/logger.ts";
import type { PaymentJournal } from "../../../shared/payments/journal.ts";
import type { RetryWrite } from "../../../shared/redis/retry-write.ts";
import type { Clock } from "../../../shared/time/clock.ts";
import { createAskedJob } from "../asked-job.ts";
import type { Catalog } from "../catalog.ts";
import type { Chains } from "../chains.ts";
import { createConcurrencyLimit } from "../concurrency-limit.ts";
import { createPreflight } from "../cors.ts";
import type { Facilitators } from "../facilitator/pool.ts";
import type { Finish } from "../payment/finish.ts";
import { createReadQuote, type ReadQuote } from "../payment/operator-quote.ts";
import { createKnownPayment } from "../payment/outcome.ts";
import { answerRefused } from "../payment/responses.ts";
import { createTakePayment } from "../payment/settle.ts";
import type { AuthorizeCaller } from "../policy/caller.ts";
import { createHandler } from "../server.ts";
import { pricedJob } from "../sold-job.ts";
import { createAdmit } from "./admit.ts";
import { createAskForPayment } from "./ask-for-payment.ts";
import type { AskedTally } from "./asked-tally.ts";
import { answerCallState } from "./call-status.ts";
import { createChallenge } from "./challenge.ts";
import { createDryRun } from "./dry-run.ts";
import { createPayJob } from "./pay-job.ts";
import { answerPrice } from "./price.ts";

type Deps = {
  x402: X402Toml;
  metadataPrefix: string;
  catalog: Catalog;
  asked: AskedTally;
  admission: Admission;
  readiness: () => Readiness;
  journal: PaymentJournal;
  facilitators: Facilitators;
  chains: Chains;
  finish: Finish;
  beginWrite: () => RetryWrite;
  authorizeCaller: AuthorizeCaller;
  clock: Clock;
  log: Logger;
};

/** Everything the gateway answers, from the parts that decide. */
export function createAnswerAll(deps: Deps): RequestListener {
  const { x402, catalog, journal, admission, clock } = deps;
  const settings = toSettings(x402, deps.metadataPrefix);
  const challenge = createChallenge(settings, clock);
  const statusUrlOf = (id: string) => `${x402.public_url}/x402/calls/${id}`;
  const patienceMs = settings.settleTimeoutSeconds * 1000;
  const openMax = x402.open_payments_per_payer;
  const assertOpen = () => admission.assertOpen();
  const askedJob = createAskedJob({ catalog, readQuote: readQuoteOf(deps) });
  const paying = {
    ...deps,
    askedJob,
    settings,
    assertOpen,
    paymentsInFlight: createConcurrencyLimit({
      max: paymentsInFlightMax(x402.body_limit_bytes),
      what: "new payments",
    }),
    knownPayment: createKnownPayment({ journal, clock, patienceMs, statusUrlOf }),
    admit: createAdmit({
      ...deps,
      askedJob,
      settings,
      assertOpen,
      headOf: (token) => deps.chains.headOf(token),
    }),
  };
  const payJob = createPayJob({
    ...paying,
    challenge,
    statusUrlOf,
    take: createTakePayment({ ...deps, openMax, trustFacilitator: x402.trust_facilitator }),
  });
  return createHandler({
    askForPayment: createAskForPayment({ ...deps, askedJob, challenge }),
    payJob,
    dryRun: createDryRun({ ...paying, openMax }),
    price: (res, ids) => answerPrice(res, pricedJob(catalog, ids), x402.public_url),
    callState: (res, callId) => answerCallState(res, journal, callId),
    preflight: createPreflight(deps.metadataPrefix),
    refuse: ({ req, res, ids }, error) => answerRefused(challenge, error, { req, res, ids }),
    readiness: deps.readiness,
    isEnding: () => admission.ending,
  });
}

/** All bodies of new payments together stay under this. */
const IN_FLIGHT_BYTES_MAX = 1024 ** 3;

function paymentsInFlightMax(bodyBytesMax: number): number {
  return Math.max(16, Math.min(1024, Math.floor(IN_FLIGHT_BYTES_MAX / Math.max(1, bodyBytesMax))));
}

function readQuoteOf({ x402, metadataPrefix, clock }: Deps): ReadQuote {
  const { quote_operators: operators, quote_domain: domain } = x402;
  return createReadQuote({ operators, domain, metadataPrefix, clock });
}

function toSettings(x402: X402Toml, metadataPrefix: string) {
  return {
    publicUrl: x402.public_url,
    maxTimeoutSeconds: x402.max_timeout_secs,
    quoteTtlSeconds: x402.quote_ttl_secs,
    quoteSecrets: x402.quote_secret as [Secret, ...Secret[]],
    settleTimeoutSeconds: x402.settle_timeout_secs,
    bodyBytesMax: x402.body_limit_bytes,
    metadataPrefix,
  };
}
