"""The FX graph of one capture: its inputs, its nodes, its fake values, and its way to the backend."""
