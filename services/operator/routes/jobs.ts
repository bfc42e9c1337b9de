import { z } from "zod";
import { AppError } from "../../../shared/errors/app-error.ts";
import { JobView } from "../../../shared/operator/jobs.ts";
import { jobParams, reason } from "../parameters.ts";
import { type Route, route } from "../route.ts";

const JOB = "/api/v1/jobs/{service_id}/{job_index}";

const JobList = z.object({ jobs: z.array(JobView) });
const JobChange = z.object({ changed: z.boolean(), job: JobView });
const Reason = z.strictObject({ reason });

const keyOf = ({ service_id, job_index }: z.infer<typeof jobParams>) => `${service_id}/${job_index}`;

/** As `postern jobs`. */
export const jobRoutes: readonly Route[] = [
  route({
    method: "GET",
    path: "/api/v1/jobs",
    access: "viewer",
    summary: "List the jobs that have calls or settings: what waits, and whether calls are taken",
    answers: { 200: { description: "The jobs, by service id and job index", schema: JobList } },
    answer: async (_asked, { api }) => ({ status: 200, json: { jobs: await api.jobs.list() } }),
  }),
  route({
    method: "GET",
    path: JOB,
    access: "viewer",
    summary: "Show one job",
    params: jobParams,
    answers: { 200: { description: "The job", schema: JobView } },
    problems: ["job.not_found"],
    async answer({ params }, { api }) {
      const key = keyOf(params);
      const job = (await api.jobs.list()).find((each) => each.job === key);
      if (job === undefined) throw AppError.public("job.not_found", `job ${key} has no queue and no setting`);
      return { status: 200, json: job };
    },
  }),
  route({
    method: "POST",
    path: `${JOB}/pause`,
    access: "operator",
    summary: "Have no producer take calls of a job; gateways go on accepting them",
    params: jobParams,
    body: Reason,
    answers: { 200: { description: "The job is paused, or was before", schema: JobChange } },
    answer: async ({ params, body }, { api }) => ({
      status: 200,
      json: await api.jobs.pause(keyOf(params), body.reason),
    }),
  }),
  route({
    method: "POST",
    path: `${JOB}/resume`,
    access: "operator",
    summary: "Have the calls of a job taken again",
    params: jobParams,
    body: Reason,
    answers: { 200: { description: "The job is not paused any more, or was not before", schema: JobChange } },
    answer: async ({ params, body }, { api }) => ({
      status: 200,
      json: await api.jobs.resume(keyOf(params), body.reason),
    }),
  }),
];
