import { useState } from "preact/hooks";
import { isRunning } from "../../api/failed.ts";
import { type AcknowledgeBulk, beginAcknowledge } from "../../api/payments.ts";
import { useRun } from "../../api/use-run.ts";
import { Confirm } from "../../ui/confirm.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { count, counted } from "../../ui/number.ts";
import { RunProblems } from "../../ui/run-problems.tsx";

type Props = { ids: readonly string[]; onCancel: () => void; onDone: () => void };

/**
 * Asks why these disputed payments are acknowledged, then acknowledges them and shows the progress. If the user closes
 * the dialog, the work continues.
 */
export function AcknowledgeDialog({ ids, onCancel, onDone }: Props) {
  const [run, setRun] = useState<AcknowledgeBulk | undefined>();
  const title = `Acknowledge ${counted(ids.length, "disputed payment")}`;
  if (run !== undefined) return <Progress title={title} run={run} onChange={setRun} onClose={onDone} />;
  return (
    <Confirm
      title={`${title}?`}
      verb="Acknowledge"
      example="The facilitator lied, and is replaced"
      onClose={onCancel}
      onDone={() => {}}
      act={async (reason) => setRun(await beginAcknowledge(ids, reason))}
    >
      <p>
        This records that you have seen the {ids.length === 1 ? "dispute" : "disputes"}. Nothing else changes:
        no call is taken back.
      </p>
    </Confirm>
  );
}

type ProgressProps = {
  title: string;
  run: AcknowledgeBulk;
  onChange: (run: AcknowledgeBulk) => void;
  onClose: () => void;
};

function Progress({ title, run, onChange, onClose }: ProgressProps) {
  const unread = useRun(run, onChange);
  const { done, unchanged } = run;
  return (
    <Dialog
      title={title}
      onClose={onClose}
      foot={
        <button type="button" onClick={onClose}>
          {isRunning(run) ? "Continue in background" : "Close"}
        </button>
      }
    >
      <p role="status">
        {counted(done, "payment")} acknowledged
        {unchanged > 0 && `, ${count(unchanged)} not disputed, or acknowledged before`}
        {isRunning(run) && " so far"}.
      </p>
      <RunProblems run={run} unread={unread} />
    </Dialog>
  );
}
