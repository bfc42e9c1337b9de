import { NavCount, type Waiting } from "./nav-count.tsx";

type Props<Value extends string> = {
  label: string;
  /** The options. `waiting` is the number of items behind an option that wait for an operator. */
  options: readonly { value: Value; name: string; waiting?: Waiting | undefined }[];
  value: Value;
  onChange: (value: Value) => void;
};

/** A choice between a few options, shown side by side. */
export function Segments<Value extends string>({ label, options, value, onChange }: Props<Value>) {
  return (
    <fieldset class="segments" aria-label={label}>
      {options.map((option) => (
        <button
          type="button"
          key={option.value}
          aria-pressed={option.value === value}
          onClick={() => onChange(option.value)}
        >
          {option.name}
          <NavCount waiting={option.waiting} />
        </button>
      ))}
    </fieldset>
  );
}
