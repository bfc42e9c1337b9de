import { ask } from "../../api/ask.ts";
import { Confirm } from "../../ui/confirm.tsx";

/** Removes what a call's sender has said, as the law or the sender may demand. */
export function ForgetDialog({ id, onClose }: { id: string; onClose: () => void }) {
  const forget = (reason: string) =>
    ask("POST", `api/v1/calls/${encodeURIComponent(id)}/forget`, { body: { reason } });
  return (
    <Confirm title="Forget this call" verb="Forget it" isDangerous onClose={onClose} act={forget}>
      <p>
        Its body, metadata, result and what was said of its attempts are deleted. Its id stays, so that no
        repeat of the delivery or the payment runs again. A failed call ends by it. This cannot be undone.
      </p>
    </Confirm>
  );
}
