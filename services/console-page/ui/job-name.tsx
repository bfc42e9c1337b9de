import { whyNoJobKey } from "../../../shared/call/job-ids.ts";
import { useJobTitle } from "../api/names.ts";
import { linkTo } from "../url-fragment.ts";

/**
 * Shows a job's name and key, with a link to its page or to `href`. A receiver of callbacks, which some lists contain
 * like a job, has no page and no link.
 */
export function JobName({ job, href }: { job: string; href?: string }) {
  const title = useJobTitle()(job);
  const address = href ?? (whyNoJobKey(job) === undefined ? linkTo(["jobs", ...job.split("/")]) : undefined);
  return address === undefined ? (
    <span>{title}</span>
  ) : (
    <a href={address} title={title}>
      {title}
    </a>
  );
}
