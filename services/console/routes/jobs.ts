import { z } from "zod";
import { JobChange, JobPage, JobView } from "../../../shared/console/jobs.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { CALLBACKS_GATE, readGate } from "../../../shared/queue/queue-name.ts";
import { jobParams, page, reason, whole } from "../parameters.ts";
import { type Route, route } from "../route.ts";

const JOBS = "/api/v1/jobs";
const JOB = `${JOBS}/{service_id}/{job_index}`;

const host = z.string();
const receiverParams = z.strictObject({ host });
const placeParams = z.strictObject({ host, port: whole({ min: 1, max: 65_535 }) });

/** As `postern jobs`. Callbacks are paused as a job is: those to a receiver, or all. */
export const jobRoutes: readonly Route[] = [
  route({
    method: "GET",
    path: JOBS,
    access: "viewer",
    summary: "List the jobs that have calls or settings, with their queues and pauses",
    query: z.strictObject(page),
    answers: {
      200: {
        description: "Jobs by service id and job index, then all callbacks together, then receivers by name.",
        schema: JobPage,
      },
    },
    answer: async ({ query }, { api }) => ({ status: 200, json: await api.jobs.page(query) }),
  }),
  ...routesOf(`${JOBS}/${CALLBACKS_GATE}`, "all callbacks", z.strictObject({}), () => CALLBACKS_GATE),
  ...routesOf(
    `${JOBS}/${CALLBACKS_GATE}/{host}`,
    "the callbacks to a receiver at port 443 or 80",
    receiverParams,
    (params) => `${CALLBACKS_GATE}/${params.host}`,
  ),
  ...routesOf(
    `${JOBS}/${CALLBACKS_GATE}/{host}/{port}`,
    "the callbacks to a receiver at another port",
    placeParams,
    (params) => `${CALLBACKS_GATE}/${params.host}/${params.port}`,
  ),
  ...routesOf(
    JOB,
    "the calls of a job",
    jobParams,
    ({ service_id, job_index }) => `${service_id}/${job_index}`,
  ),
];

/** `nameOf` writes the name as the path has it; the route acts on the job of the name's stored form. */
function routesOf<Params extends z.ZodType>(
  path: string,
  what: string,
  params: Params,
  nameOf: (params: z.output<Params>) => string,
): Route[] {
  const body = z.strictObject({ reason });
  const jobOf = (asked: z.output<Params>): string => {
    const read = readGate(nameOf(asked));
    if ("gate" in read) return read.gate;
    throw AppError.public("request.not_found", `the name in the URL ${read.problem}`);
  };
  return [
    route({
      method: "GET",
      path,
      access: "viewer",
      summary: `Show the queue and the pauses of ${what}`,
      params,
      answers: { 200: { description: "The waiting calls, and the pauses.", schema: JobView } },
      problems: ["job.not_found"],
      answer: async (asked, { api }) => ({ status: 200, json: await api.jobs.show(jobOf(asked.params)) }),
    }),
    route({
      method: "POST",
      path: `${path}/pause`,
      access: "operator",
      summary: `Pause ${what}; new ones are still accepted, and wait`,
      ...{ params, body },
      answers: { 200: { description: "It is paused, or was paused before.", schema: JobChange } },
      audit: ["pause"],
      answer: async (asked, { api }) => ({
        status: 200,
        json: await api.jobs.pause(jobOf(asked.params), asked.body.reason),
      }),
    }),
    route({
      method: "POST",
      path: `${path}/resume`,
      access: "operator",
      summary: `Resume ${what}`,
      ...{ params, body },
      answers: {
        200: { description: "It is no longer paused, or was not paused before.", schema: JobChange },
      },
      audit: ["resume"],
      answer: async (asked, { api }) => ({
        status: 200,
        json: await api.jobs.resume(jobOf(asked.params), asked.body.reason),
      }),
    }),
  ];
}
