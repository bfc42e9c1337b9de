import { whyNoJobKey } from "../../../shared/call/job-ids.ts";
import { useJobTitle } from "../api/names.ts";
import { linkTo } from "../url-fragment.ts";

/** A job's name and key, with a link to its page. A receiver of callbacks has no page. */
export function JobName({ job }: { job: string }) {
  const title = useJobTitle()(job);
  if (whyNoJobKey(job) !== undefined) return <span>{job}</span>;
  return <a href={linkTo(["jobs", ...job.split("/")])}>{title}</a>;
}
