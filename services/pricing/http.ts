import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { AppError, toAppError } from "../../shared/errors/app-error.ts";
import { toHex } from "../../shared/ethereum/encoding.ts";
import { COMMON_HEADERS, sendProblem } from "../../shared/http/problem.ts";
import { rawPath } from "../../shared/http/raw-path.ts";
import { readBody } from "../../shared/http/read-body.ts";
import { encodeQuoteHeader, toQuoteJson } from "../../shared/pricing/quote-header.ts";
import type { Ask } from "./ask.ts";
import { parseQuotePath, parseQuoteRequest, type QuotedIds } from "./http-request.ts";
import type { JobPriceAnswer } from "./job-price.ts";

const BODY_BYTES_MAX = 16 * 1024;

type Deps = { ask: Ask; isEnding: () => boolean };

/** POST /pricing/jobs/{service_id}/{job_index}/quote: GetJobPrice for who speaks JSON. */
export function createHttpHandler({ ask, isEnding }: Deps): RequestListener {
  return async (req, res) => {
    if (isEnding()) res.setHeader("Connection", "close");
    const path = rawPath(req.url ?? "");
    const ids = parseQuotePath(path);
    if (ids === undefined) return refuse(req, res, { error: nothingAt(path) });
    if (req.method !== "POST") return refuseMethod(req, res);
    try {
      const read = async () => parseQuoteRequest(ids, await readBody(req, res, BODY_BYTES_MAX));
      sendAnswer(res, await ask("http", read));
    } catch (thrown) {
      refuse(req, res, { error: toAppError(thrown), ids });
    }
  };
}

/** Integers are decimal strings, bytes are 0x hex; `quote_header` is what an x402 gateway takes. */
function sendAnswer(res: ServerResponse, answer: JobPriceAnswer): void {
  const { signed, operator, proofOfWork, settlement } = answer;
  const { details, signature } = toQuoteJson(signed);
  const body = JSON.stringify({
    quote_details: details,
    signature,
    operator_id: operator,
    proof_of_work: toHex(proofOfWork),
    ...(settlement && { settlement_options: settlement.options, x402_endpoint: settlement.endpoint }),
    tee_attested: false,
    tee_provider: "",
    quote_header: encodeQuoteHeader(signed),
  });
  const length = Buffer.byteLength(body);
  res.writeHead(200, { ...COMMON_HEADERS, "Content-Type": "application/json", "Content-Length": length });
  res.end(body);
}

type Refusal = { error: AppError; ids?: QuotedIds };

function refuse(req: IncomingMessage, res: ServerResponse, { error, ids }: Refusal): void {
  const members = ids && { service_id: String(ids.serviceId), job_index: String(ids.jobIndex) };
  sendProblem(req, res, { error, extra: { ...(error.code === "job.not_found" && members && { members }) } });
}

function refuseMethod(req: IncomingMessage, res: ServerResponse): void {
  const error = new AppError("request.method_not_allowed", {
    reason: `${req.method}`,
    publicDetail: "use POST",
  });
  sendProblem(req, res, { error, extra: { headers: { Allow: "POST" } } });
}

function nothingAt(path: string): AppError {
  return new AppError("request.not_found", { reason: `nothing at ${path}` });
}
