import { rawQuery } from "../../../shared/http/headers.ts";
import type { JobListAnswer, ListedJob } from "../../../shared/openapi/x402-answers.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { inlineDeclared } from "../../../shared/pricing/discovery.ts";
import { settlementEndpoint } from "../../../shared/pricing/prices.ts";
import type { Catalog, Job } from "../offer/catalog.ts";
import { toPricedJob } from "./price.ts";

const JOBS_PER_PAGE = 100;

/**
 * GET /x402: lists the jobs for sale in the order of the configuration, a hundred a page. A page is kept as bytes, and is made
 * again only after a rate or the supported kinds of payment have changed. So a request costs little. Throws `request.not_found`
 * if the request's target names a page that does not exist.
 */
export function createListJobs({ onSale, find }: Catalog, publicUrl: string) {
  const pages = Math.max(1, Math.ceil(onSale.length / JOBS_PER_PAGE));
  const madeByFirst = new WeakMap<Job, Buffer>();

  function make(page: number, jobs: readonly Job[]): Buffer {
    const list: JobListAnswer = {
      jobs: jobs.map((job) => toListed(job, publicUrl)),
      ...(page < pages && { next: `${publicUrl}/x402?page=${page + 1}` }),
    };
    return Buffer.from(JSON.stringify(list));
  }

  return function listJobs(target: string): Buffer {
    const page = pageIn(target);
    if (page === undefined || page > pages) throw noSuchPage(pages);
    const ids = onSale.slice((page - 1) * JOBS_PER_PAGE, page * JOBS_PER_PAGE);
    const [first, ...others] = ids;
    const job = first && find(first);
    if (job === undefined) return make(page, []);
    const made = madeByFirst.get(job) ?? make(page, [job, ...others.flatMap((each) => find(each) ?? [])]);
    madeByFirst.set(job, made);
    return made;
  };
}

function pageIn(target: string): number | undefined {
  const text = new URLSearchParams(rawQuery(target)).get("page") ?? "1";
  return /^[1-9]\d{0,8}$/.test(text) ? Number(text) : undefined;
}

function noSuchPage(pages: number): AppError {
  return AppError.public("request.not_found", `page must be a number from 1 to ${pages}`);
}

function toListed(job: Job, publicUrl: string): ListedJob {
  const { name, description, input } = job;
  const url = settlementEndpoint(publicUrl, job);
  return {
    ...toPricedJob(job, publicUrl),
    ...(name !== undefined && { name }),
    ...(description !== undefined && { description }),
    url,
    price_url: `${url}/price`,
    ...(input && { schema_url: `${url}/schema` }),
    ...inlineDeclared(job),
  };
}
