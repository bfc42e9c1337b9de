import { request } from "../../api/ask.ts";
import { Confirm } from "../../ui/confirm.tsx";

/**
 * Asks for a reason, and then deletes the data of a call that came from its sender. An operator does this if the law or
 * the sender demands it.
 */
export function ForgetDialog({ id, onClose }: { id: string; onClose: () => void }) {
  const forget = (reason: string) =>
    request("POST", "api/v1/calls/{call_id}/forget", { call_id: id, reason });
  return (
    <Confirm
      title="Forget this call?"
      verb="Forget call"
      example="The sender asked for it, ticket 815"
      isDangerous
      onClose={onClose}
      act={forget}
    >
      <p>
        This deletes the call's body, metadata, result and attempt details. Its id stays, so that a repeat of
        the delivery or the payment does not run again. If the call has failed, this also discards it: it can
        no longer be replayed, and if it is paid, its refund becomes due. This cannot be undone.
      </p>
    </Confirm>
  );
}
