import type { BulkView } from "../../../shared/console/bulk-operations.ts";
import type { Refused } from "../api/ask.ts";
import { Notice } from "./notice.tsx";

type Missing = readonly { detail: string }[];

/** Lists the ids given to a bulk operation for which it found no call or payment, each with the reason. */
export function MissingIds({ missing }: { missing: Missing }) {
  return missing.map(({ detail }) => (
    <p class="small muted wrap" key={detail}>
      {detail}
    </p>
  ));
}

type Props = { run: Pick<BulkView, "failure"> & { missing: Missing }; unread: Refused | undefined };

/** Shows what went wrong in a bulk operation, and why its progress could not be read. */
export function RunProblems({ run: { missing, failure }, unread }: Props) {
  return (
    <>
      <MissingIds missing={missing} />
      {failure !== null && (
        <Notice tone="bad" title="Operation stopped">
          {failure.reason}
        </Notice>
      )}
      {unread !== undefined && (
        <Notice tone="warn" title="Progress unavailable">
          {unread.detail}
        </Notice>
      )}
    </>
  );
}
