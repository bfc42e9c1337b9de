import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { type Refused, toRefused } from "../api/ask.ts";
import { Dialog } from "./dialog.tsx";
import { NotDone } from "./notice.tsx";
import { ReasonField } from "./reason-field.tsx";

type Props = {
  title: string;
  /** The word on the button. */
  verb: string;
  isDangerous?: boolean;
  /** What has to be chosen or filled in before it can be done. */
  isReady?: boolean;
  /** A reason that somebody might have for it. */
  example: string;
  onClose: () => void;
  /** Follows once it is done. Without it, the dialog closes. */
  onDone?: () => void;
  /** Throws what goes wrong. */
  act: (reason: string) => Promise<unknown>;
  /** What it does, in words. */
  children: ComponentChildren;
};

/** Asks why, does it, and closes; or says why it was not done. */
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
      {refused !== undefined && <NotDone refused={refused} title="Nothing was changed" />}
      {children}
      <ReasonField value={reason} onChange={setReason} example={example} />
    </Dialog>
  );
}
