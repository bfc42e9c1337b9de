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
import { linkTo } from "../../route.ts";
import { Confirm } from "../../ui/confirm.tsx";
import { Notice } from "../../ui/notice.tsx";
import { type Act, ActDialog } from "../failed/act.tsx";
import { amountOf } from "./list.tsx";
import { ResolveDialog } from "./resolve.tsx";

type Open = "resolve" | "refund-withdraw" | "drop" | Act;

/** What somebody can do about a payment, each with what comes of it. `onDone` is called after each. */
export function WhatToDo({ payment, onDone }: { payment: PaymentDetail; onDone: () => void }) {
  const [open, setOpen] = useState<Open | undefined>();
  const mayOperate = useMayOperate();
  const close = () => {
    setOpen(undefined);
    onDone();
  };
  const { actions, call_id } = payment;
  const choices = choicesFor(actions);
  if (choices.length === 0)
    return <p class="muted">Nothing: it is settled, and its call is where it belongs.</p>;
  const begin = (choice: Choice) => {
    if (choice === "resolve" || choice === "refund-withdraw" || choice === "drop") setOpen(choice);
    else if (choice === "replay" || choice === "discard")
      setOpen({ action: choice, selection: { ids: [call_id] }, count: 1 });
  };
  return (
    <>
      <ul class="to-do">
        {choices.map((choice) => (
          <li key={choice}>
            <p>{TEXTS[choice](payment)}</p>
            {mayOperate && choice === "reconcile" && <LookNow id={call_id} onDone={onDone} />}
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
                Refunds
              </a>
            )}
          </li>
        ))}
      </ul>
      {!mayOperate && <p class="muted small">A viewer cannot do it.</p>}
      {open === "resolve" && <ResolveDialog payment={payment} onClose={close} />}
      {open === "drop" && <DropDialog id={call_id} onClose={close} />}
      {open === "refund-withdraw" && <WithdrawDialog id={call_id} onClose={close} />}
      {typeof open === "object" && <ActDialog act={open} onClose={close} />}
    </>
  );
}

type Choice = "resolve" | Exclude<PaymentAction, "settle" | "void" | "acknowledge">;

/** What is one decision is one choice. */
function choicesFor(actions: readonly PaymentAction[]): Choice[] {
  const choices = actions.map((action) =>
    action === "settle" || action === "void" || action === "acknowledge" ? "resolve" : action,
  );
  return [...new Set(choices)];
}

const VERBS: Partial<Record<Choice, string>> = {
  resolve: "Decide…",
  drop: "Drop its body…",
  replay: "Replay…",
  discard: "Discard…",
  "refund-withdraw": "Take it off…",
};

const TEXTS: Record<Choice, (payment: PaymentDetail) => ComponentChildren> = {
  resolve: (payment) =>
    payment.disputed
      ? "Look at the transaction, and say that you have seen it. Nothing else changes."
      : `Look in an explorer, at the payer's address, for a transfer of ${amountOf(payment)} to the address that is paid, and decide. If it is there, name its transaction, which is checked, and the call runs.`,
  reconcile: () => "The gateways look at it by themselves. You can have one look at once.",
  drop: () =>
    "If it only takes up space in Redis, delete its body. No settle is sent any more, and its call never runs.",
  replay: () => "Mend what its runner refused, and run its call again. It is paid already.",
  discard: () => "End its call for good. The money may then be due back.",
  refund: () => "Pay the money back, with the list of refunds.",
  "refund-check": () => "Its refund is exported. Once the transfer is on the chain, a check closes it.",
  "refund-withdraw": () =>
    "The runner has done the job although its refund was exported. Take it off the export, if it is not paid back yet.",
};

function DropDialog({ id, onClose }: { id: string; onClose: () => void }) {
  return (
    <Confirm
      title="Drop the body of this payment"
      verb="Drop it"
      isDangerous
      onClose={onClose}
      act={(reason) => resolvePayment(id, { verdict: "dropped", reason })}
    >
      <p>
        Its body is deleted, and no settle is sent any more. If its payer or somebody else sends the money all
        the same, the call does not run and the money is due back. This cannot be undone.
      </p>
    </Confirm>
  );
}

function WithdrawDialog({ id, onClose }: { id: string; onClose: () => void }) {
  return (
    <Confirm
      title="Take a refund off its export"
      verb="Take it off"
      isDangerous
      onClose={onClose}
      act={(reason) => withdrawRefund(id, reason)}
    >
      <p>
        Its call counts as delivered, and nothing is paid back. Take its transfer out of what your wallet is
        going to send, or it is paid back all the same.
      </p>
    </Confirm>
  );
}

/** Has a gateway look, and says what came of it. */
function LookNow({ id, onDone }: { id: string; onDone: () => void }) {
  const [said, setSaid] = useState<string | undefined>();
  const [refused, setRefused] = useState<Refused | undefined>();
  const [isBusy, setBusy] = useState(false);
  const look = async () => {
    setBusy(true);
    try {
      const { state, state_before: before, looked } = await reconcilePayment(id);
      setRefused(undefined);
      setSaid(saidOf(looked, before !== state));
      onDone();
    } catch (error) {
      setRefused(toRefused(error));
    }
    setBusy(false);
  };
  return (
    <>
      <button type="button" onClick={look} disabled={isBusy}>
        {isBusy ? "Looking" : "Look now"}
      </button>
      {said !== undefined && <p role="status">{said}</p>}
      {refused !== undefined && (
        <Notice tone="bad" title="It was not looked at">
          {refused.detail}
        </Notice>
      )}
    </>
  );
}

function saidOf(looked: boolean | null, hasChanged: boolean): string {
  if (looked === null) return "No gateway looks after it any more.";
  if (!looked) return "No gateway has looked within 10 s. Is one running?";
  return hasChanged
    ? "A gateway has looked, and decided."
    : "A gateway has looked, and nothing is decided yet.";
}
