import { NavCount, type Waiting } from "./nav-count.tsx";

type Props<Value extends string> = {
  label: string;
  /** Each may say how much waits for somebody there. */
  options: readonly { value: Value; name: string; waiting?: Waiting | undefined }[];
  value: Value;
  onChange: (value: Value) => void;
};

/** One of a few, side by side. */
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
