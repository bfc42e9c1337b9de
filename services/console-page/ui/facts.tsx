import type { ComponentChildren } from "preact";

export type Fact = readonly [name: string, value: ComponentChildren];

/** Lists names and values. A name without a value is left out. */
export function Facts({ facts }: { facts: readonly Fact[] }) {
  const known = facts.filter(([, value]) => value !== undefined && value !== null && value !== "");
  return (
    <dl class="facts">
      {known.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
