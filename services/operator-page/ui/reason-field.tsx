import { useId } from "preact/hooks";
import { useSession } from "../api/session.ts";

/** Why somebody does it, for the audit. Nothing is done without one. */
export function ReasonField({ value, onChange }: { value: string; onChange: (text: string) => void }) {
  const id = useId();
  const session = useSession();
  return (
    <div class="field">
      <label for={id}>Reason</label>
      <textarea
        id={id}
        rows={2}
        required
        maxLength={500}
        value={value}
        onInput={({ currentTarget }) => onChange(currentTarget.value)}
        placeholder="The runner is fixed: deploy 4711"
        aria-describedby={`${id}-help`}
      />
      <p id={`${id}-help`} class="muted small">
        The audit keeps it, with the name {session?.name}.
      </p>
    </div>
  );
}
