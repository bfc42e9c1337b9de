import { toJobCall } from "../../shared/call/job-call.ts";
import { chainIdOf } from "../../shared/chain/encoding.ts";
import type { PaymentJournal } from "../../shared/payments/journal.ts";
import { type NewPayment, type PaymentTerms, paymentCallId } from "../../shared/payments/payment.ts";
import { sha256Hex } from "../../shared/platform/crypto/compare.ts";
import { JOB_PATH } from "../fixtures/x402.ts";
import { randomNonce } from "./sign-payment.ts";

type Made = Partial<PaymentTerms> &
  Pick<PaymentTerms, "network" | "asset"> & {
    body?: Buffer;
    /** Facilitator of the payment; by default one that no gateway knows. */
    facilitator?: string;
  };

/** Returns an operator's line in the audit log for dropping a payment's body. */
export const dropOf = (id: string, reason = "a test") =>
  ({ at: Date.now(), action: "drop", callId: id, by: "me", selection: "by id", reason }) as const;

/** Limits of a claim that refuse nothing. */
export const UNBOUNDED = { openMax: 1e6, clients: [], unsettledBytesMax: Number.MAX_SAFE_INTEGER };

/** Makes a payment that no gateway has seen. */
export function makePayment({ network, asset, ...made }: Made): NewPayment {
  const { body = Buffer.from("hello"), facilitator = "http://127.0.0.1:1/", ...rest } = made;
  const terms: PaymentTerms = {
    service_id: 1,
    job_index: 7,
    network,
    asset,
    symbol: "USDC",
    pay_to: `0x${"2".repeat(40)}`,
    payer: `0x${"1".repeat(40)}`,
    nonce: randomNonce(),
    amount: "3200000",
    valid_after: "0",
    valid_before: String(Math.floor(Date.now() / 1000) + 600),
    quote_digest: `0x${"0".repeat(64)}`,
    x402_version: 2,
    transfer_method: "eip3009",
    body_bytes: body.length,
    ...rest,
  };
  const call = toJobCall({
    id: paymentCallId({ ...terms, chainId: chainIdOf(network), method: terms.transfer_method }),
    origin: "x402",
    service_id: 1,
    job_id: 7,
    metadata: {},
    content_type: "text/plain",
    body,
    bodySha256: sha256Hex(body),
    accepted_at: Date.now(),
  });
  return {
    ...{
      call,
      terms,
      route: JOB_PATH,
      identifier: undefined,
      idempotencyKey: undefined,
      signedSha256: undefined,
      callerNonce: undefined,
      quoteUse: undefined,
      sinceBlock: 0n,
    },
    request: { x402Version: 2, paymentPayload: {}, paymentRequirements: { network } },
    facilitator,
  };
}

/** Claims a payment, which is then SETTLING and due now. Resolves with its id. */
export async function claimPayment(journal: PaymentJournal, made: Made): Promise<string> {
  const payment = makePayment(made);
  await journal.claim(payment, { ...UNBOUNDED, by: "a test", dueInMs: 0 });
  return payment.call.id;
}

/** Brings a payment to QUEUED, with a waiting call, and due now. Resolves with its id. */
export async function queuePayment(journal: PaymentJournal, made: Made, proven = false): Promise<string> {
  const id = await claimPayment(journal, made);
  const payment = await journal.find(id);
  if (payment === undefined) throw new Error(`${id} was not claimed`);
  const { network, payer } = payment.terms;
  const settlement = { transaction: randomNonce(), network, payer, by: "facilitator" } as const;
  await journal.enqueueSettled(payment, { settlement, proven }, { dueInMs: 0 });
  return id;
}
