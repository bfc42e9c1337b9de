type TileProps = {
  name: string;
  value: string | undefined;
  unit?: string;
  note?: string | undefined;
  href?: string;
  isBad?: boolean;
};

/** A number with its name, as an item of a list. Its space stays the same while the number is not known. */
export function Tile({ name, value = "", unit = "", note = "", href, isBad = false }: TileProps) {
  const shown = (
    <>
      {value}
      {value !== "" && unit !== "" && <span class="tile-unit">{unit}</span>}
    </>
  );
  return (
    <div class={`tile ${isBad ? "bad" : ""}`}>
      <dt>{name}</dt>
      <dd class="tile-value">{href === undefined ? shown : <a href={href}>{shown}</a>}</dd>
      <dd class="tile-note muted small">{note}</dd>
    </div>
  );
}
