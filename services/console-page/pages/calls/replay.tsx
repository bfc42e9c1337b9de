import { useState } from "preact/hooks";
import { request } from "../../api/ask.ts";
import { Confirm } from "../../ui/confirm.tsx";
import { goTo, linkTo } from "../../url-fragment.ts";

/**
 * Asks for a reason, queues a delivered webhook as a new call, and opens the page of that call. The request has an id.
 * If the user clicks twice, the console recognizes the id and makes no second call.
 */
export function ReplayDialog({ id, onClose }: { id: string; onClose: () => void }) {
  const [requestId] = useState(randomId);
  const replay = async (reason: string) => {
    const asked = { call_id: id, reason, request_id: requestId };
    const { call_id } = await request("POST", "api/v1/calls/{call_id}/replay", asked);
    goTo(linkTo(["calls", call_id]));
  };
  return (
    <Confirm
      title="Replay as a new call?"
      verb="Replay"
      example="The runner lost the order"
      onClose={onClose}
      act={replay}
    >
      <p>
        This queues a new call with the same body and headers. The runner has already taken this call. The new
        one has another id, so the runner runs it too: what the job does happens again. No callback is sent.
      </p>
    </Confirm>
  );
}

/** Returns a random id of 32 hex digits. `crypto.randomUUID` is not used, because browsers offer it only over https. */
function randomId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
