import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import type { z } from "zod";
import { toHex, UINT64_MAX } from "../../shared/chain/encoding.ts";
import { messageForJson } from "../../shared/config/problem.ts";
import { sendBody } from "../../shared/http/answer.ts";
import { readBody } from "../../shared/http/body.ts";
import type { ClientAddressOf } from "../../shared/http/client-address.ts";
import { assertNotEncoded } from "../../shared/http/content-coding.ts";
import { corsHeaders, createPreflight } from "../../shared/http/cors.ts";
import { sendProblem } from "../../shared/http/problem.ts";
import { nothingAt, type Params, serveRoutes } from "../../shared/http/router.ts";
import { type QuoteAnswer, QuoteBody } from "../../shared/openapi/pricing.ts";
import { type AppError, toAppError } from "../../shared/platform/errors/app-error.ts";
import { parseBoundedJson } from "../../shared/platform/text/bounded-json.ts";
import { encodeQuoteHeader, toQuoteJson } from "../../shared/pricing/job-quote.ts";
import { type AskPrice, invalid, type JobPriceAnswer, type JobPriceRequest } from "./job-price.ts";

const BODY_BYTES_MAX = 16 * 1024;

/** Allows pages of any origin to request a quote. */
const CORS_HEADERS = new Map(Object.entries(corsHeaders(["Retry-After"])));
const answerPreflight = createPreflight({ methods: ["POST"], headers: ["Content-Type", "traceparent"] });

const PATH = "/pricing/jobs/{service_id}/{job_index}/quote";

/** Handles POST /pricing/jobs/{service_id}/{job_index}/quote: GetJobPrice over HTTP and JSON. */
export function createHttpHandler(ask: AskPrice, addressOf: ClientAddressOf): RequestListener {
  async function quote(req: IncomingMessage, res: ServerResponse, params: Params): Promise<void> {
    const ids = toIds(params);
    if (ids === undefined) throw nothingAt(req);
    try {
      const address = addressOf(req);
      assertNotEncoded(req);
      const read = async () => ({
        ...parseQuoteRequest(ids, await readBody(req, res, BODY_BYTES_MAX)),
        address,
      });
      sendAnswer(res, await ask("http", read));
    } catch (thrown) {
      refuse(req, res, toAppError(thrown), ids);
    }
  }

  const preflight = (_req: IncomingMessage, res: ServerResponse) => answerPreflight(res);
  const routes = serveRoutes(
    [
      { method: "POST", path: PATH, serve: quote },
      { method: "OPTIONS", path: PATH, serve: preflight },
    ],
    { shapes: ID_SHAPES },
  );
  return (req, res) => {
    res.setHeaders(CORS_HEADERS);
    routes(req, res);
  };
}

/**
 * Sends the answer. Integers are decimal strings, bytes are 0x hex. `quote_header` is the value of the header in which
 * a payment gateway accepts the quote.
 */
function sendAnswer(res: ServerResponse, answer: JobPriceAnswer): void {
  const { signed, operator, proofOfWork, settlement } = answer;
  const { details, signature } = toQuoteJson(signed);
  const told: QuoteAnswer = {
    quote_details: details,
    signature,
    operator_id: operator,
    proof_of_work: toHex(proofOfWork),
    ...(settlement && { settlement_options: settlement.options, x402_endpoint: settlement.endpoint }),
    tee_attested: false,
    tee_provider: "",
    quote_header: encodeQuoteHeader(signed),
  };
  sendBody(res, "application/json", JSON.stringify(told));
}

function refuse(req: IncomingMessage, res: ServerResponse, error: AppError, ids: QuotedIds): void {
  const members = { service_id: String(ids.serviceId), job_index: String(ids.jobIndex) };
  sendProblem(req, res, error, error.code === "job.not_found" ? { members } : {});
}

type QuotedIds = { serviceId: bigint; jobIndex: number };

/** Form of the ids in a path. Each number has only one form: without a sign, leading zeros or percent-encoding. */
const ID_SHAPES = { service_id: /0|[1-9]\d{0,19}/, job_index: /0|[1-9]\d{0,9}/ };

const UINT32_MAX = 2 ** 32 - 1;

/** Parses the ids of a path; returns undefined if an id is too large. */
function toIds({ service_id = "", job_index = "" }: Params): QuotedIds | undefined {
  const ids = { serviceId: BigInt(service_id), jobIndex: Number(job_index) };
  return ids.serviceId <= UINT64_MAX && ids.jobIndex <= UINT32_MAX ? ids : undefined;
}

/** Reads a GetJobPriceRequest in JSON, with the path's ids. Throws `pricing.request_invalid`, which names the field. */
function parseQuoteRequest(ids: QuotedIds, body: Buffer): JobPriceRequest {
  const parsed = QuoteBody.safeParse(jsonIn(body), { error: messageForJson });
  if (!parsed.success) throw problemOf(parsed.error.issues[0]);
  const { proof_of_work, challenge_timestamp, require_tee, requester, inputs_hash } = parsed.data;
  return {
    ...ids,
    proofOfWork: proof_of_work,
    challengeTimestamp: challenge_timestamp,
    requireTee: require_tee,
    requester,
    inputsHash: inputs_hash,
  };
}

function problemOf(issue: z.core.$ZodIssue | undefined) {
  if (issue?.code === "unrecognized_keys")
    return invalid(String(issue.keys[0]), "is not a field of this request");
  const field = issue === undefined || issue.path.length === 0 ? "body" : issue.path.join(".");
  return invalid(field, issue?.message ?? "is malformed");
}

function jsonIn(body: Buffer): unknown {
  const parsed = parseBoundedJson(body);
  if (!parsed.ok) throw invalid("body", parsed.problem);
  return parsed.value;
}
