import { COMMON_HEADERS, sendBody } from "../../../shared/http/answer.ts";
import type { Route } from "../../../shared/http/router.ts";
import { toPaymentInfo } from "../../../shared/openapi/payment-info.ts";
import { type Catalog, guidanceOf, JOBS_SHOWN, toX402OpenApi } from "../../../shared/openapi/x402.ts";
import type { WellKnownAnswer } from "../../../shared/openapi/x402-answers.ts";
import { sha256Hex } from "../../../shared/platform/crypto/compare.ts";
import { settlementEndpoint } from "../../../shared/pricing/prices.ts";

/** Time in seconds for which a client may use a document without revalidating it. */
const MAX_AGE_SECS = 300;

/**
 * Creates the routes of the documents by which programs find the jobs for sale. All are public. A price that changes with a rate
 * is in none of them.
 */
export function discoveryRoutes(catalog: Catalog): Route[] {
  return [
    documentRoute("/openapi.json", "application/json", () => JSON.stringify(toX402OpenApi(catalog))),
    documentRoute("/.well-known/x402", "application/json", () => JSON.stringify(toWellKnown(catalog))),
    documentRoute("/llms.txt", "text/markdown; charset=utf-8", () => toLlmsTxt(catalog)),
  ];
}

/**
 * Creates the GET route of a public document that depends only on the configuration. The first request makes the
 * document.
 */
function documentRoute(path: string, contentType: string, make: () => string): Route {
  let made: { body: Buffer; headers: Readonly<Record<string, string>> } | undefined;

  function document() {
    const body = Buffer.from(make());
    const ETag = `"${sha256Hex(body).slice(0, 32)}"`;
    return { body, headers: { "Cache-Control": `public, max-age=${MAX_AGE_SECS}`, ETag } };
  }

  return {
    method: "GET",
    path,
    serve(req, res) {
      made ??= document();
      const { body, headers } = made;
      if (!isKnown(req.headers["if-none-match"], headers["ETag"]))
        return sendBody(res, contentType, body, headers);
      res.writeHead(304, { ...COMMON_HEADERS, ...headers }).end();
    },
  };
}

/** Returns whether the client already has this document (RFC 9110, section 13.1.2). */
function isKnown(ifNoneMatch: string | undefined, etag: string | undefined): boolean {
  const tags = ifNoneMatch?.split(",").map((each) => each.trim().replace(/^W\//, "")) ?? [];
  return tags.some((tag) => tag === "*" || tag === etag);
}

function toWellKnown({ x402, jobs }: Catalog): WellKnownAnswer {
  const url = x402.public_url;
  return {
    version: 2,
    x402Version: 2,
    name: x402.shop.name,
    openapi: `${url}/openapi.json`,
    llms: `${url}/llms.txt`,
    resources: jobs.slice(0, JOBS_SHOWN).map((job) => settlementEndpoint(url, job)),
  };
}

/** Writes the list of jobs in the format of llmstxt.org. */
function toLlmsTxt({ x402, jobs }: Catalog): string {
  const url = x402.public_url;
  const listed = jobs.slice(0, JOBS_SHOWN).map((job) => {
    const { name = `Job ${job.jobIndex} of service ${job.serviceId}`, description } = job;
    const prices = toPaymentInfo(job, x402.accepted_tokens).offers.map((offer) => offer.description);
    const about = [...(description === undefined ? [] : [description]), `Price: ${prices.join("; or ")}`];
    return `- [${name}](${settlementEndpoint(url, job)}): ${oneLine(about.join(". "))}`;
  });
  return [
    `# ${x402.shop.name}`,
    "",
    "> Jobs that programs buy by HTTP and pay for by x402.",
    "",
    guidanceOf(url),
    "",
    "## Jobs",
    "",
    ...(listed.length === 0 ? ["Nothing is for sale at the moment."] : listed),
    "",
    "## Documents",
    "",
    `- [OpenAPI](${url}/openapi.json): every path with its answers`,
    `- [Jobs](${url}/x402): all jobs with their current prices and schemas`,
    "",
  ].join("\n");
}

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, " ");
}
