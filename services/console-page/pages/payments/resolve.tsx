import { useState } from "preact/hooks";
import { type PaymentDetail, resolvePayment, type Verdict } from "../../api/payments.ts";
import { Confirm } from "../../ui/confirm.tsx";
import { amountOf } from "./list.tsx";

/** A decision on a payment in review, or the acknowledgement of a disputed payment. */
type Decided = Exclude<Verdict, "dropped">;

const TRANSACTION = /^0x[0-9a-fA-F]{64}$/;

/** Asks the operator to decide whether a payment in review was made, or to acknowledge a disputed payment. */
export function ResolveDialog({ payment, onClose }: { payment: PaymentDetail; onClose: () => void }) {
  const [verdict, setVerdict] = useState<Decided | undefined>(payment.disputed ? "acknowledged" : undefined);
  const [transaction, setTransaction] = useState(payment.settlement?.transaction ?? "");
  const isSettled = verdict === "settled";
  const act = (reason: string) => {
    if (verdict === undefined) throw new Error("nothing is chosen");
    const settled = { transaction: transaction.trim().toLowerCase(), reason };
    const decision = verdict === "settled" ? { verdict, ...settled } : { verdict, reason };
    return resolvePayment(payment.call_id, decision);
  };
  return (
    <Confirm
      title={`Payment of ${amountOf(payment)} from ${payment.terms.payer.slice(0, 10)}…`}
      verb={payment.disputed ? "Acknowledge" : VERB[verdict ?? "settled"]}
      example={EXAMPLE[verdict ?? "settled"]}
      isDangerous={verdict === "void"}
      isReady={verdict !== undefined && (!isSettled || TRANSACTION.test(transaction.trim()))}
      onClose={onClose}
      act={act}
    >
      {payment.reason !== null && <p class="quote">{payment.reason}</p>}
      {payment.disputed ? (
        <p>This records that you have seen the dispute. Nothing else changes: the call is not taken back.</p>
      ) : (
        <fieldset class="choices">
          <legend>Is the call paid?</legend>
          <Choice value="settled" chosen={verdict} onChoose={setVerdict} title="Yes, it is paid">
            The call runs. Enter the transaction that made the payment.
          </Choice>
          <Choice value="void" chosen={verdict} onChoose={setVerdict} title="No, and it will not be paid">
            The call never runs, and its body is deleted. If the money arrives later, a refund is due.
          </Choice>
        </fieldset>
      )}
      {isSettled && (
        <div class="field">
          <label for="transaction">Transaction</label>
          <input
            id="transaction"
            class="mono"
            autocomplete="off"
            spellcheck={false}
            placeholder="0x and 64 hex digits"
            value={transaction}
            onInput={({ currentTarget }) => setTransaction(currentTarget.value)}
          />
        </div>
      )}
    </Confirm>
  );
}

const VERB = { settled: "Mark as paid", void: "Mark as not paid", acknowledged: "Acknowledge" } as const;

const EXAMPLE = {
  settled: "Seen in the explorer: the transfer of 12:04",
  void: "The payer says that they did not send it",
  acknowledged: "The chain was reorganised, and the payer has paid again",
} as const;

type ChoiceProps = {
  value: Decided;
  chosen: Decided | undefined;
  onChoose: (value: Decided) => void;
  title: string;
  children: string;
};

function Choice({ value, chosen, onChoose, title, children }: ChoiceProps) {
  return (
    <label class="check">
      <input type="radio" name="verdict" checked={chosen === value} onChange={() => onChoose(value)} />
      <span>
        <strong>{title}</strong>
        <span class="muted step-aside">{children}</span>
      </span>
    </label>
  );
}
