import { isJobName } from "../../../shared/call/job-ids.ts";
import { typoBetween } from "../../../shared/platform/text/similar-words.ts";
import { get, reasonOf, wordsOf } from "../http.ts";
import { PayFailure } from "./purchase.ts";

type Listed = { service_id: number; job_index: number; name: string };

/** Maximum number of pages that are read from a gateway's list of jobs. A page has a hundred jobs. */
const PAGES_MAX = 100;

/**
 * Returns the URL of the job that the gateway sells under this name. The URL is made from the gateway's URL as the user
 * gave it, and the numbers of the job in the gateway's list. Throws PayFailure if the job is not found.
 */
export async function findJob(gateway: URL, name: string, deadline: number): Promise<URL> {
  const base = `${gateway.origin}${gateway.pathname.replace(/(?:\/x402)?\/?$/, "")}`;
  const names: string[] = [];
  for (let page = 1; page <= PAGES_MAX; page++) {
    const { jobs, isLast } = await readPage(new URL(`${base}/x402?page=${page}`), deadline);
    const job = jobs.find((each) => each.name === name);
    if (job !== undefined) return new URL(`${base}/x402/jobs/${job.service_id}/${job.job_index}`);
    names.push(...jobs.map((each) => each.name));
    if (isLast) break;
  }
  throw new PayFailure("refused", { reason: `${base} sells no job named ${name}${advice(name, names)}` });
}

async function readPage(url: URL, deadline: number): Promise<{ jobs: Listed[]; isLast: boolean }> {
  const answer = await get(url, deadline).catch((cause: unknown) => {
    const reason = `cannot get the list of jobs from ${url.host}: ${reasonOf(cause)}`;
    throw new PayFailure("failed", { reason, cause });
  });
  const { jobs, next } = answer.json;
  if (answer.status !== 200 || !Array.isArray(jobs)) {
    const reason = `expected a list of jobs from ${url.href}, but it answered ${wordsOf(answer)}`;
    throw new PayFailure("failed", { reason });
  }
  return { jobs: jobs.filter(isListed), isLast: typeof next !== "string" };
}

/** Whether an entry of the gateway's list has all that is needed to buy the job by its name. Other entries are ignored. */
function isListed(job: unknown): job is Listed {
  if (typeof job !== "object" || job === null) return false;
  const { service_id, job_index, name } = job as Partial<Listed>;
  const isId = (id: unknown) => Number.isSafeInteger(id) && Number(id) >= 0;
  return isId(service_id) && isId(job_index) && typeof name === "string" && isJobName(name);
}

const NAMES_SHOWN = 20;

function advice(name: string, names: readonly string[]): string {
  if (names.length === 0) return "; its jobs have no names, so use the URL of the job";
  const near = names.filter(
    (each) => each.startsWith(name) || name.startsWith(each) || typoBetween(each, name) !== undefined,
  );
  if (near.length > 0) return `; did you mean ${near.slice(0, NAMES_SHOWN).join(", ")}?`;
  return `; it sells ${names.slice(0, NAMES_SHOWN).join(", ")}${names.length > NAMES_SHOWN ? ", ..." : ""}`;
}
