import type { Rejected } from "../../api/jobs.ts";
import { Notice } from "../../ui/notice.tsx";
import { linkTo } from "../../url-fragment.ts";

/** Says that the user searched for the id of a refused request, which has no call, and links to that request. */
export function RefusedNotice({ requests }: { requests: readonly Rejected[] }) {
  if (requests.length === 0) return null;
  return (
    <Notice tone="neutral" title="The id of a refused request">
      {requests.map(({ id, endpoint }) => (
        <p key={id}>
          <a href={linkTo(["refused"], { id, ...(endpoint === null ? { unknown: "true" } : { endpoint }) })}>
            {id}
          </a>{" "}
          was refused, so there is no call.
        </p>
      ))}
    </Notice>
  );
}
