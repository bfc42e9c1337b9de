import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { type Refused, toRefused } from "../../api/ask.ts";
import {
  type PaymentAction,
  type PaymentDetail,
  reconcilePayment,
  resolvePayment,
  withdrawRefund,
} from "../../api/payments.ts";
import { useMayOperate } from "../../api/session.ts";
import { Confirm } from "../../ui/confirm.tsx";
import { ActionFailed } from "../../ui/notice.tsx";
import { linkTo } from "../../url-fragment.ts";
import { type Act, ActDialog } from "../failed/act.tsx";
import { amountOf } from "./list.tsx";
import { ResolveDialog } from "./resolve.tsx";

type Open = "resolve" | "refund-withdraw" | "drop" | Act;

/** Lists the actions on a payment, each with its consequence. Calls `onDone` after each. */
export function PaymentActions({ payment, onDone }: { payment: PaymentDetail; onDone: () => void }) {
  const [open, setOpen] = useState<Open | undefined>();
  const mayOperate = useMayOperate();
  const close = () => {
    setOpen(undefined);
    onDone();
  };
  const { actions, call_id } = payment;
  const choices = choicesFor(actions);
  if (choices.length === 0) return <p class="muted">No action needed.</p>;
  const begin = (choice: Choice) => {
    if (choice === "resolve" || choice === "refund-withdraw" || choice === "drop") setOpen(choice);
    else if (choice === "replay" || choice === "discard")
      setOpen({ action: choice, selection: { ids: [call_id] } });
  };
  return (
    <>
      <ul class="to-do">
        {choices.map((choice) => (
          <li key={choice}>
            <p>{TEXTS[choice](payment)}</p>
            {mayOperate && choice === "reconcile" && <ReconcileNow id={call_id} onDone={onDone} />}
            {mayOperate && choice in VERBS && (
              <button
                type="button"
                class={choice === "resolve" ? "primary" : ""}
                onClick={() => begin(choice)}
              >
                {choice === "resolve" && payment.disputed ? "Acknowledge…" : VERBS[choice]}
              </button>
            )}
            {(choice === "refund" || choice === "refund-check") && (
              <a class="button" href={linkTo(["payments"], { view: "refunds" })}>
                View refunds
              </a>
            )}
          </li>
        ))}
      </ul>
      {!mayOperate && <p class="muted small">Viewers cannot do this.</p>}
      {open === "resolve" && <ResolveDialog payment={payment} onClose={close} />}
      {open === "drop" && <DropDialog id={call_id} onClose={close} />}
      {open === "refund-withdraw" && <WithdrawDialog id={call_id} onClose={close} />}
      {typeof open === "object" && <ActDialog act={open} onClose={close} />}
    </>
  );
}

type Choice = "resolve" | Exclude<PaymentAction, "settle" | "void" | "acknowledge">;

/**
 * Returns the choices to show to the user. The actions `settle`, `void` and `acknowledge` are possible answers in one
 * dialog, so they are one choice.
 */
function choicesFor(actions: readonly PaymentAction[]): Choice[] {
  const choices = actions.map((action) =>
    action === "settle" || action === "void" || action === "acknowledge" ? "resolve" : action,
  );
  return [...new Set(choices)];
}

const VERBS: Partial<Record<Choice, string>> = {
  resolve: "Decide…",
  drop: "Give up…",
  replay: "Replay…",
  discard: "Discard…",
  "refund-withdraw": "Withdraw refund…",
};

const TEXTS: Record<Choice, (payment: PaymentDetail) => ComponentChildren> = {
  resolve: (payment) =>
    payment.disputed
      ? "Check the transaction, then acknowledge the dispute. Nothing else changes."
      : `In an explorer, look at the payer's address for a transfer of ${amountOf(payment)} to the recipient, then decide. If it exists, enter its transaction. The console checks it on the chain, and the call runs.`,
  reconcile: () => "The gateways check this payment by themselves. You can also request a check now.",
  drop: () =>
    "If the payment only takes up space in Redis, give it up: the body of its call is deleted, no further settle request is sent, and the call never runs.",
  replay: () => "Fix the cause, then run the call again. It is already paid.",
  discard: () => "End the call without running it. A refund may then be due.",
  refund: () => "Pay the money back. The list of refunds shows how.",
  "refund-check": () => "The refund is exported. Once its transfer is on the chain, a check closes it.",
  "refund-withdraw": () =>
    "The runner did the job after the refund was exported. If the refund is not paid yet, withdraw it.",
};

function DropDialog({ id, onClose }: { id: string; onClose: () => void }) {
  return (
    <Confirm
      title="Give up this payment?"
      verb="Give up payment"
      example="It fills Redis, and the payer has given up"
      isDangerous
      onClose={onClose}
      act={(reason) => resolvePayment(id, { verdict: "dropped", reason })}
    >
      <p>
        The body of its call is deleted, and no further settle request is sent. If the money still arrives,
        from the payer or anyone else, the call does not run and a refund is due. This cannot be undone.
      </p>
    </Confirm>
  );
}

function WithdrawDialog({ id, onClose }: { id: string; onClose: () => void }) {
  return (
    <Confirm
      title="Withdraw this refund?"
      verb="Withdraw refund"
      example="The job was done, and the customer has the result"
      isDangerous
      onClose={onClose}
      act={(reason) => withdrawRefund(id, reason)}
    >
      <p>
        The call counts as injected, and no refund is due. Remove the transfer from the list that your wallet
        will send, or the money is still paid back.
      </p>
    </Confirm>
  );
}

/** Shows a button that makes a payment gateway check the payment now, and then shows the outcome. */
function ReconcileNow({ id, onDone }: { id: string; onDone: () => void }) {
  const [said, setSaid] = useState<string | undefined>();
  const [refused, setRefused] = useState<Refused | undefined>();
  const [isBusy, setBusy] = useState(false);
  const look = async () => {
    setBusy(true);
    try {
      const { state, state_before: before, looked } = await reconcilePayment(id);
      setRefused(undefined);
      setSaid(outcomeText(looked, before !== state));
      onDone();
    } catch (error) {
      setRefused(toRefused(error));
    }
    setBusy(false);
  };
  return (
    <>
      <button type="button" onClick={look} disabled={isBusy}>
        {isBusy ? "Checking" : "Check now"}
      </button>
      {said !== undefined && <p role="status">{said}</p>}
      {refused !== undefined && <ActionFailed refused={refused} title="Check failed" />}
    </>
  );
}

function outcomeText(looked: boolean | null, hasChanged: boolean): string {
  if (looked === null) return "No gateway handles this payment any longer.";
  if (!looked) return "No gateway checked the payment within 10 s. Make sure that one is running.";
  return hasChanged
    ? "A gateway checked the payment and found its outcome."
    : "A gateway checked the payment. Its outcome is not known yet.";
}
