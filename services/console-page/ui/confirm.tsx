import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { type Refused, toRefused } from "../api/ask.ts";
import { Dialog } from "./dialog.tsx";
import { ActionFailed } from "./notice.tsx";
import { ReasonField } from "./reason-field.tsx";

type Props = {
  title: string;
  /** Label of the button. */
  verb: string;
  isDangerous?: boolean;
  /** Whether the user has filled in all that `children` ask for, so that the button can be enabled. */
  isReady?: boolean;
  /** Example of a reason. */
  example: string;
  onClose: () => void;
  /** Called after the act has succeeded. By default this is `onClose`. */
  onDone?: () => void;
  /** Performs the act with the given reason; throws if it fails. */
  act: (reason: string) => Promise<unknown>;
  /** Description of the act, and further fields that it needs. */
  children: ComponentChildren;
};

/** Dialog that asks for a reason, performs an act and closes. If the act fails, says why and stays open. */
export function Confirm(props: Props) {
  const {
    title,
    verb,
    isDangerous = false,
    isReady = true,
    example,
    onClose,
    onDone = onClose,
    act,
    children,
  } = props;
  const [reason, setReason] = useState("");
  const [refused, setRefused] = useState<Refused | undefined>();
  const [isBusy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    try {
      await act(reason.trim());
      onDone();
    } catch (error) {
      setRefused(toRefused(error));
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={title}
      onClose={onClose}
      isBusy={isBusy}
      foot={
        <>
          <button type="button" onClick={onClose} disabled={isBusy}>
            Cancel
          </button>
          <button
            type="button"
            class={isDangerous ? "danger" : "primary"}
            disabled={isBusy || !isReady || reason.trim() === ""}
            onClick={run}
          >
            {verb}
          </button>
        </>
      }
    >
      {refused !== undefined && <ActionFailed refused={refused} title="Nothing was changed" />}
      {children}
      <ReasonField value={reason} onChange={setReason} example={example} />
    </Dialog>
  );
}
