import { useState } from "preact/hooks";
import { type EndpointTested, testEndpoint } from "../../api/endpoints.ts";
import { Confirm } from "../../ui/confirm.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { Notice } from "../../ui/notice.tsx";
import { linkTo } from "../../url-fragment.ts";

/** Asks for a reason, makes a webhooks gateway send a signed sample webhook to its own endpoint, and shows the outcome. */
export function TestDialog({ path, onClose }: { path: string; onClose: () => void }) {
  const [tested, setTested] = useState<EndpointTested | undefined>();
  if (tested !== undefined) return <Tested tested={tested} onClose={onClose} />;
  return (
    <Confirm
      title={`Send a test to ${path}?`}
      verb="Send test"
      example="The secret was replaced"
      onClose={onClose}
      onDone={() => {}}
      act={async (reason) => setTested(await testEndpoint({ path, reason }))}
    >
      <p>
        A gateway signs a sample webhook with this endpoint's secret and sends it to itself. If it is
        accepted,
        <strong> its job runs once</strong>, as for any webhook. The sender's address is not checked.
      </p>
    </Confirm>
  );
}

function Tested({ tested, onClose }: { tested: EndpointTested; onClose: () => void }) {
  const { path, status, accepted, detail, call_id } = tested;
  return (
    <Dialog
      title={`Test of ${path}`}
      onClose={onClose}
      foot={
        <button type="button" onClick={onClose}>
          Close
        </button>
      }
    >
      <Notice
        tone={accepted ? "good" : "bad"}
        title={status === null ? "No webhook was sent" : `The gateway answered ${status}`}
      >
        {detail}
      </Notice>
      {call_id !== null && (
        <p>
          <a href={linkTo(["calls", call_id])}>Show the call</a>
        </p>
      )}
      {status !== null && !accepted && (
        <p>
          <a href={linkTo(["refused"], { endpoint: path })}>Show why it was refused</a>
        </p>
      )}
    </Dialog>
  );
}
