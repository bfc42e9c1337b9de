import { documentRoute } from "../../../shared/http/document-route.ts";
import type { Route } from "../../../shared/http/router.ts";
import { toPaymentInfo } from "../../../shared/openapi/payment-info.ts";
import { type Catalog, guidanceOf, JOBS_SHOWN, toX402OpenApi } from "../../../shared/openapi/x402.ts";
import type { WellKnownAnswer } from "../../../shared/openapi/x402-answers.ts";
import { settlementEndpoint } from "../../../shared/pricing/prices.ts";

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
