-- Whole tables on MariaDB.

-- fragment: id_of_m
COALESCE(m.own_id, LOWER(CONCAT(
    LPAD(HEX(m.sent_at >> 16), 8, '0'), '-', LPAD(HEX(m.sent_at & 65535), 4, '0'), '-7000-', HEX(32768 | (m.seq >> 48)), '-',
    LPAD(HEX(m.seq & 281474976710655), 12, '0')
)))

-- fragment: id_of_p
COALESCE(p.own_id, LOWER(CONCAT(
    LPAD(HEX(p.sent_at >> 16), 8, '0'), '-', LPAD(HEX(p.sent_at & 65535), 4, '0'), '-7000-', HEX(32768 | (p.seq >> 48)), '-',
    LPAD(HEX(p.seq & 281474976710655), 12, '0')
)))
