import { request } from "./ask.ts";

export type { JobView as Job } from "../../../shared/console/jobs.ts";
export type {
  RejectedGroupView as RejectedGroup,
  RejectedView as Rejected,
} from "../../../shared/console/rejected.ts";

export const pauseJob = (job: string, reason: string): Promise<unknown> =>
  request("POST", "api/v1/jobs/{job+}/pause", { job, reason });

export const resumeJob = (job: string, reason: string): Promise<unknown> =>
  request("POST", "api/v1/jobs/{job+}/resume", { job, reason });
