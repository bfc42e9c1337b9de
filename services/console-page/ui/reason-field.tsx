import { useId } from "preact/hooks";
import { useSession } from "../api/session.ts";

type Props = {
  value: string;
  onChange: (text: string) => void;
  /** Example of a reason for this act. */
  example: string;
};

/** Field for the operator's reason for an act. The console requires one for each act, and writes it to the audit log. */
export function ReasonField({ value, onChange, example }: Props) {
  const id = useId();
  const session = useSession();
  return (
    <div class="field">
      <label for={id}>Reason (required)</label>
      <textarea
        id={id}
        rows={2}
        required
        maxLength={500}
        value={value}
        onInput={({ currentTarget }) => onChange(currentTarget.value)}
        placeholder={`for example: ${example}`}
        aria-describedby={`${id}-help`}
      />
      <p id={`${id}-help`} class="muted small">
        Recorded in the audit log under the name “{session?.name}”
        {session?.ends_at === null && ", because this console has no tokens"}.
      </p>
    </div>
  );
}
