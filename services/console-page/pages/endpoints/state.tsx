import { useState } from "preact/hooks";
import { type Endpoint, setEndpointState } from "../../api/endpoints.ts";
import { Confirm } from "../../ui/confirm.tsx";
import { Badge } from "../../ui/notice.tsx";
import { counted } from "../../ui/number.ts";
import { Ago } from "../../ui/time.tsx";

/** Says that an endpoint is disabled or held, by whom and why. Shows nothing for an enabled endpoint. */
export function EndpointState({ endpoint: { state, set, held } }: { endpoint: Endpoint }) {
  if (set === null) return null;
  return (
    <span class="step-aside small">
      <Badge tone="warn">{state}</Badge>{" "}
      <span class="muted">
        <Ago at={set.at} /> by {set.by}: {set.reason}
        {held > 0 && ` (${counted(held, "call")} held)`}
      </span>
    </span>
  );
}

type DialogProps = { endpoint: Endpoint; onClose: () => void };

const STOPS = [
  {
    state: "held",
    name: "Hold: accept webhooks, deliver none",
    says: "Senders get their 202 as usual. The calls are on disk, and are delivered in order once the endpoint is enabled. Calls accepted before go on; pause the job to stop them too.",
  },
  {
    state: "disabled",
    name: "Disable: refuse with 503",
    says: "Most senders send the delivery again for hours or days. Some, such as GitHub, never do, and some turn the webhook off after many failures. A delivery that is not sent again is lost.",
  },
] as const;

/** Asks the operator whether to disable or hold an endpoint, and for what reason, and then does it. */
export function StopDialog({ endpoint: { path }, onClose }: DialogProps) {
  const [state, setState] = useState<(typeof STOPS)[number]["state"]>("held");
  return (
    <Confirm
      title={`Stop ${path}?`}
      verb={state === "held" ? "Hold endpoint" : "Disable endpoint"}
      isDangerous={state === "disabled"}
      example="Its job is broken"
      onClose={onClose}
      act={(reason) => setEndpointState({ path, state, reason })}
    >
      <p>
        Applies at all gateways within 2 seconds, and stays after restarts. Other endpoints are not affected.
      </p>
      {STOPS.map((stop) => (
        <label class="stop-choice" key={stop.state}>
          <input
            type="radio"
            name="stop"
            checked={state === stop.state}
            onChange={() => setState(stop.state)}
          />{" "}
          <span>
            <strong>{stop.name}</strong>
            <br />
            <span class="muted">{stop.says}</span>
          </span>
        </label>
      ))}
    </Confirm>
  );
}

export function EnableDialog({ endpoint: { path, held }, onClose }: DialogProps) {
  return (
    <Confirm
      title={`Enable ${path}?`}
      verb="Enable endpoint"
      example="Its job is mended"
      onClose={onClose}
      act={(reason) => setEndpointState({ path, state: "enabled", reason })}
    >
      <p>
        Webhooks are accepted and delivered again.
        {held > 0 && ` ${counted(held, "held call is", "held calls are")} delivered first.`}
      </p>
    </Confirm>
  );
}
