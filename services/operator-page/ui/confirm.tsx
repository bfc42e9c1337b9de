import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { type Refused, toRefused } from "../api/ask.ts";
import { Dialog } from "./dialog.tsx";
import { Notice } from "./notice.tsx";
import { ReasonField } from "./reason-field.tsx";

type Props = {
  title: string;
  /** The word on the button. */
  verb: string;
  isDangerous?: boolean;
  /** What has to be chosen or filled in before it can be done. */
  isReady?: boolean;
  onClose: () => void;
  /** Throws what goes wrong. */
  act: (reason: string) => Promise<unknown>;
  /** What it does, in words. */
  children: ComponentChildren;
};

/** Asks why, does it, and closes; or says why it was not done. */
export function Confirm({ title, verb, isDangerous = false, isReady = true, onClose, act, children }: Props) {
  const [reason, setReason] = useState("");
  const [refused, setRefused] = useState<Refused | undefined>();
  const [isBusy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    try {
      await act(reason.trim());
      onClose();
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
      {refused !== undefined && (
        <Notice tone="bad" title="It was not done">
          {refused.detail}
        </Notice>
      )}
      {children}
      <ReasonField value={reason} onChange={setReason} />
    </Dialog>
  );
}
