import { useState } from "preact/hooks";
import { type AcknowledgeBulk, beginAcknowledge } from "../../api/payments.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { Confirm } from "../../ui/confirm.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { NotDone, Notice } from "../../ui/notice.tsx";
import { count, counted } from "../../ui/number.ts";

type Props = { ids: readonly string[]; onCancel: () => void; onDone: () => void };

const EVERY_MS = 400;

/** Asks why these disputed payments are acknowledged, and shows the progress. The work continues after the dialog is closed. */
export function AcknowledgeDialog({ ids, onCancel, onDone }: Props) {
  const [begun, setBegun] = useState<AcknowledgeBulk | undefined>();
  const title = `Acknowledge ${counted(ids.length, "disputed payment")}`;
  if (begun !== undefined) return <Progress title={title} begun={begun} onClose={onDone} />;
  return (
    <Confirm
      title={`${title}?`}
      verb="Acknowledge"
      example="The facilitator lied, and is replaced"
      onClose={onCancel}
      onDone={() => {}}
      act={async (reason) => setBegun(await beginAcknowledge(ids, reason))}
    >
      <p>This records that you have seen the disputes. Nothing else changes: no call is taken back.</p>
    </Confirm>
  );
}

function Progress({ title, begun, onClose }: { title: string; begun: AcknowledgeBulk; onClose: () => void }) {
  const [isOver, setOver] = useState(begun.ended_at !== null);
  const path = isOver ? undefined : "api/v1/bulk/{run_id}";
  const [run, setRun] = useState(begun);
  const { data, refused } = useAnswer(path, { run_id: begun.id }, { everyMs: EVERY_MS });
  if (data?.kind === "acknowledge" && data !== run && !isOver) {
    setRun(data);
    setOver(data.ended_at !== null);
  }
  const { done, unchanged, missing, failure } = run;
  return (
    <Dialog
      title={title}
      onClose={onClose}
      foot={
        <button type="button" onClick={onClose}>
          {isOver ? "Close" : "Continue in background"}
        </button>
      }
    >
      <p role="status">
        {counted(done, "payment")} acknowledged
        {unchanged > 0 && `, ${count(unchanged)} not disputed, or acknowledged before`}
        {!isOver && " so far"}.
      </p>
      {missing.map(({ detail }) => (
        <p class="small muted wrap" key={detail}>
          {detail}
        </p>
      ))}
      {failure !== null && (
        <Notice tone="bad" title="Operation stopped">
          {failure.reason}
        </Notice>
      )}
      {!isOver && refused !== undefined && <NotDone refused={refused} title="Progress unavailable" />}
    </Dialog>
  );
}
